"""Reads a Perfetto trace by the official schema and prints what it holds, one line per fact, sorted."""
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

with open(sys.argv[1], "rb") as file:
    trace = Trace.FromString(file.read())
names, tracks, depth, lines = {}, {}, {}, []
for packet in trace.packet:
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_descriptor"):
        track = packet.track_descriptor
        process = track.HasField("process")
        tracks[track.uuid] = track.process.process_name if process else track.thread.thread_name or track.name
        depth[track.uuid] = []
    if packet.HasField("track_event"):
        event = packet.track_event
        assert packet.trusted_packet_sequence_id == 1 and event.track_uuid in tracks, event
        where = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            args = {note.name: note.WhichOneof("value") for note in event.debug_annotations}
            depth[event.track_uuid].append((names[event.name_iid], packet.timestamp, list(event.flow_ids), args))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            name, start, flows, args = depth[event.track_uuid].pop()
            level = len(depth[event.track_uuid])
            lines.append(f"{where}: {name} {start}..{packet.timestamp} level {level} flows {flows} {sorted(args)}")
        else:
            assert event.type == TrackEvent.TYPE_COUNTER, event
            lines.append(f"{where}: counter {event.double_counter_value} at {packet.timestamp}")
for uuid, stack in depth.items():
    lines.extend(f"{tracks[uuid]}: {name} {start} open" for name, start, _, _ in stack)
lines.append(f"tracks: {sorted(tracks.values())}")
print("\n".join(sorted(lines)))
