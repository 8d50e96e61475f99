/** What the figures were measured on, and what a process costs. Reads /proc: on other systems CPU and memory are left out. */
import { readdirSync, readFileSync } from 'node:fs';
import { cpus, release, totalmem, type } from 'node:os';

/** A line for the report. Names neither host nor folders. */
export function describeMachine(postgres: string): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  const gigabytes = Math.round(totalmem() / 2 ** 30);
  return `${cpus().length} × ${model}, ${gigabytes} GB of memory, ${type()} ${release()}, Node ${process.versions.node}, PostgreSQL ${postgres} (embedded, unix socket, fsync on)`;
}

const TICK_MICROSECONDS = 10_000;

interface Stat {
  readonly parent: number;
  readonly cpu: number;
  /** Of its children that have ended. */
  readonly endedCpu: number;
}

function readStat(pid: number): Stat | undefined {
  try {
    // The second field is the name in brackets, which may hold blanks.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? [];
    const ticks = (at: number): number =>
      (Number(fields[at]) + Number(fields[at + 1])) * TICK_MICROSECONDS;
    return { parent: Number(fields[1]), cpu: ticks(11), endedCpu: ticks(13) };
  } catch {
    return undefined;
  }
}

function everyPid(): number[] {
  try {
    return readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** CPU time that a process has used so far, in microseconds. */
export const cpuTime = (pid: number): number => readStat(pid)?.cpu ?? Number.NaN;

/** CPU time of a process and its children, also of those that have ended, in microseconds. */
export function familyCpuTime(pid: number): number {
  const children = everyPid().filter((candidate) => readStat(candidate)?.parent === pid);
  // A child may end between two looks: its time is then in that of the parent, which is read last.
  const running = children.reduce((sum, child) => sum + (readStat(child)?.cpu ?? 0), 0);
  const parent = readStat(pid);
  return parent ? running + parent.cpu + parent.endedCpu : Number.NaN;
}

/** Resident memory in bytes. */
export function residentMemory(pid: number): number {
  try {
    const line = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return Number(line?.[1]) * 1024;
  } catch {
    return Number.NaN;
  }
}
