#!/usr/bin/env bash
# A Slurm cluster of two nodes, n1 and n2, on this machine: for tests of plumbing, never for times.
# Needs root, slurmctld, slurmd, slurm-client and munge; neither systemd nor control groups.
#
#   nodes.sh up DIR NAME PORT PORT PORT   starts the cluster NAME; all its files are in DIR
#   nodes.sh kill DIR NODE                kills a node with its tasks, as a power cut does
#   nodes.sh down DIR                     ends what is left
#
# With SLURM_CONF=DIR/slurm.conf in the environment Slurm's commands speak to it.
set -euo pipefail
dir=$(readlink -m "$2")
export SLURM_CONF=$dir/slurm.conf

up() {
  local name=$1
  # munged wants a key that it alone can read, and a socket that everyone can reach.
  mkdir -p "$dir"/{key,run,state,log} "$dir"/spool/{n1,n2}
  chmod 755 "$dir" "$dir/run"
  chmod 700 "$dir/key"
  (umask 077 && head -c 1024 /dev/urandom > "$dir/key/munge.key")
  munged --key-file="$dir/key/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/key/munged.log" --seed-file="$dir/key/munged.seed" --num-threads=2
  # MaxArraySize is small, so that a sweep of 16 shards needs two arrays. SlurmdTimeout and cred_expire decide how soon the
  # tasks of a dead node run again: the defaults are 300 s and 120 s.
  cat > "$SLURM_CONF" <<CONF
ClusterName=$name
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$2
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
CredType=cred/munge
MailProg=/bin/true
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/slurmd-%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=0
SlurmdTimeout=3
SlurmctldTimeout=5
MessageTimeout=3
KillWait=2
MinJobAge=300
MaxArraySize=10
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$3 CPUs=1 RealMemory=100 Feature=first
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$4 CPUs=1 RealMemory=100 Feature=second
PartitionName=all Nodes=n1,n2 Default=YES State=UP
CONF
  slurmctld -i
  slurmd -N n1
  slurmd -N n2
  for _ in $(seq 200); do
    [ "$(sinfo -h -N -o %t 2> /dev/null | grep -c idle)" = 2 ] && return 0
    sleep 0.1
  done
  sinfo -N
  tail -n 20 "$dir"/log/*.log
  return 1
}

# Processes of this cluster's tasks on a node.
tasks() {
  local name
  name=$(sed -n 's/^ClusterName=//p' "$SLURM_CONF")
  for environ in $(grep -lzx "SLURM_CLUSTER_NAME=$name" /proc/[0-9]*/environ 2> /dev/null); do
    grep -qzx "SLURMD_NODENAME=$1" "$environ" 2> /dev/null && basename "$(dirname "$environ")"
  done
  return 0
}

# The slurmstepd of each task: its parent.
steps() {
  for task in "$@"; do
    parent=$(awk '/^PPid/ { print $2 }' "/proc/$task/status" 2> /dev/null) || continue
    grep -qs slurmstepd "/proc/$parent/comm" && echo "$parent"
  done
  return 0
}

kill_node() {
  local own
  own=$(tasks "$1")
  # shellcheck disable=SC2046,SC2086
  kill -9 "$(cat "$dir/run/slurmd-$1.pid")" $(steps $own) $own 2> /dev/null || true
}

down() {
  for node in n1 n2; do
    [ -f "$SLURM_CONF" ] && kill_node $node
  done
  for daemon in slurmctld munged; do
    [ -f "$dir/run/$daemon.pid" ] && { kill -9 "$(cat "$dir/run/$daemon.pid")" 2> /dev/null || true; }
  done
  return 0
}

case $1 in
up) up "$3" "$4" "$5" "$6" ;;
kill) kill_node "$3" ;;
down) down ;;
*) echo "usage: nodes.sh up DIR NAME PORT PORT PORT | kill DIR NODE | down DIR" >&2; exit 2 ;;
esac
