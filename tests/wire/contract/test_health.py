"""The standard health service, as load balancers and supervisors ask it."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.wire.contract.published import CALL_TIMEOUT_S, Client

SERVING = health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("service", ["", "camera_ai.ObjectDetection"])
async def test_a_server_that_takes_frames_is_serving(client: Client, service: str) -> None:
    """As a whole, and by the name of the service."""
    stub = health_pb2_grpc.HealthStub(client.channel)

    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=CALL_TIMEOUT_S)

    assert answer.status == SERVING


async def test_health_can_be_watched(client: Client) -> None:
    """The present state comes at once."""
    stub = health_pb2_grpc.HealthStub(client.channel)
    watching = stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=CALL_TIMEOUT_S)

    assert (await watching.read()).status == SERVING
    watching.cancel()


async def test_an_unknown_service_is_not_found(client: Client) -> None:
    """By its status."""
    stub = health_pb2_grpc.HealthStub(client.channel)
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await stub.Check(health_pb2.HealthCheckRequest(service="nothing"), timeout=CALL_TIMEOUT_S)

    assert refusal.value.code() is grpc.StatusCode.NOT_FOUND
