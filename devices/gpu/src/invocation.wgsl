
// Identifies an invocation: its workgroup, the number of workgroups, and its index within the workgroup.
struct Invocation {
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
}

// Linear index of the workgroup. Workgroups may form a rectangle, because each dimension is limited.
fn index(me: Invocation) -> u32 {
    return me.group.y * me.groups.x + me.group.x;
}
