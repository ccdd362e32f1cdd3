"""Records of gateways: stored before they are acknowledged, once each, for a bounded time and size."""
