/** Whether the disk of the database is full: remembered from statements that failed of it, and looked up where the disk is ours. */
import { statfs } from 'node:fs/promises';
import type { HealthResult } from '../health.ts';

/** A full disk is told by `/ready` until this many ms after the last statement that failed of it. */
const MEMORY_MS = 30_000;
/** Below this PostgreSQL cannot even write its log: its next checkpoint may stop it. */
const LEAST_FREE_BYTES = 32 * 1_024 * 1_024;

let lastFull = Number.NEGATIVE_INFINITY;

/** Called for every statement that failed because there was no room. */
export function noteDiskFull(): void {
  lastFull = performance.now();
}

/** `folder`: of the embedded database; nothing when the server's disk is not ours to look at. */
export async function checkStorage(folder: string | undefined): Promise<HealthResult> {
  if (performance.now() - lastFull < MEMORY_MS) return { status: 'fail', message: 'the disk of the database is full' };
  if (folder === undefined) return { status: 'pass' };
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= LEAST_FREE_BYTES) return { status: 'pass' };
  return { status: 'fail', message: 'the disk of the database is nearly full' };
}
