"""What a camera's answers come to."""

from edge_agent.figures import CameraFigures, Figures
from edge_agent.result import Answer, Object, Result


def result(latency_ms: float, outcome: str = "detected", labels: tuple[str, ...] = ()) -> Result:
    objects = tuple(Object(label, 0.9, 0, 0, 1, 1) for label in labels)
    answer = Answer(1, outcome, objects, "", 0.0, 0.0)
    return Result("door", 0, 64, 48, latency_ms, answer)


def test_of_the_last_seconds() -> None:
    """Rate, latencies and what the last frame showed; frames that nobody looked at do not count."""
    now_s = [100.0]
    figures = CameraFigures(lambda: now_s[0])
    assert figures.now() == Figures()

    for number in range(20):
        now_s[0] = 100.0 + number * 0.1
        figures.add(result(10.0 + number, labels=("person", "car", "person") if number == 19 else ()))
        figures.add(result(900.0, "superseded", ("dog",)))
    found = figures.now()

    assert round(found.fps, 1) == round(20 / 1.9, 1)
    assert (found.latency_p50_ms, found.latency_p99_ms) == (19.0, 29.0)
    assert found.sees == {"person": 2, "car": 1}
    now_s[0] += 10.0
    assert figures.now() == Figures()
