#!/bin/sh
# Installs the Debian packages that the tests need, as root or with sudo; says which.
set -e
packages="gcc g++ libc6-dev python3-dev python3-venv
    gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good
    gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav gstreamer1.0-rtsp
    make cmake libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev zlib1g-dev libturbojpeg0-dev
    libopencv-core-dev libopencv-imgcodecs-dev libopencv-dnn-dev
    systemd-container iproute2 nftables util-linux faketime ffmpeg
    gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
missing=
for package in $packages; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
echo "the tests need these Debian packages:$missing"
if [ "$(id -u)" = 0 ]; then sudo=; else sudo="sudo -n"; fi
if ! $sudo true 2>/dev/null; then
    echo "install with: sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 2
fi
$sudo apt-get -qq update
DEBIAN_FRONTEND=noninteractive $sudo apt-get -qq install -y --no-install-recommends $missing >/dev/null
