
// Who a kernel runs for: its group, how many groups there are, and its number within the group.
struct Invocation {
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
}

// The number of its group. Groups may lie in a rectangle, because a side of it is limited.
fn index(me: Invocation) -> u32 {
    return me.group.y * me.groups.x + me.group.x;
}
