"""Work on items in their order on a thread, with one sentence for the first fault."""

from __future__ import annotations

from sitl_bridge.perception.background_writer import BackgroundWriter


def fault_of(error: Exception) -> str | None:
    return str(error) if isinstance(error, OSError) else None


def test_items_are_worked_on_in_order_and_the_end_comes_last() -> None:
    done: list[object] = []
    reports: list[str] = []
    writer: BackgroundWriter[int] = BackgroundWriter(
        "writer", 2, work=done.append, end=done.append, fault_of=fault_of, report=reports.append
    )
    for item in range(20):
        writer.put(item)
    writer.close()
    writer.close()
    assert done == [*range(20), False]
    assert reports == []


def test_after_a_fault_nothing_is_worked_on_and_one_sentence_is_reported() -> None:
    done: list[object] = []
    reports: list[str] = []

    def work(item: int) -> None:
        if item == 3:
            raise OSError("the disk is full")
        done.append(item)

    writer: BackgroundWriter[int] = BackgroundWriter(
        "writer", 2, work=work, end=done.append, fault_of=fault_of, report=reports.append
    )
    for item in range(20):
        writer.put(item)
    writer.close()
    assert done == [0, 1, 2, True]
    assert reports == ["the disk is full"]
