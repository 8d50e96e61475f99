/** The log that the embedded server writes, and what it says about a start that failed. */
import { mkdir, readFile, rename, stat } from 'node:fs/promises';
import { dirname } from 'node:path';

const LARGEST_LOG_BYTES = 5_000_000;
/** What the server tells everybody who asks too early, us included. */
const polite = /the database system is (starting up|shutting down|not yet accepting connections|in recovery mode)/;
const complaint = /FATAL|PANIC|error|not found|cannot|could not|denied/i;

const sizeOf = (file: string): Promise<number> =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );

/** Makes room for the log, which starts anew when it has become large. Answers where the next start begins in it (bytes). */
export async function prepareLog(file: string): Promise<number> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const size = await sizeOf(file);
  if (size <= LARGEST_LOG_BYTES) return size;
  await rename(file, `${file}.1`);
  return 0;
}

/** Why the server gave up, in its own words, since `start` (bytes): a PANIC or FATAL goes before all that followed from it. */
export async function reasonIn(file: string, start: number): Promise<string> {
  const text = await readFile(file).catch(() => Buffer.alloc(0));
  const lines = text.subarray(start).toString().trim().split('\n');
  const told = lines.filter((line) => complaint.test(line) && !polite.test(line));
  const worst = told.find((line) => /PANIC/.test(line)) ?? told.find((line) => /FATAL/.test(line)) ?? told.at(-1) ?? lines.at(-1);
  return `${worst?.replace(/^.*?(FATAL|PANIC): +/, '') || 'it said nothing'} (log: ${file})`;
}
