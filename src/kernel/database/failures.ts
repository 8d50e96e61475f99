/** What went wrong between us and PostgreSQL, in the terms of the error catalogue. */

import { statfs } from 'node:fs/promises';
import { errors, type PenstockError } from '../errors.ts';
import type { HealthResult } from '../health.ts';

/* Whether the disk of the database is full: remembered from statements that failed of it, and looked up where the disk is ours. */

/** A full disk is told by `/ready` until this many ms after the last statement that failed of it. */
const MEMORY_MS = 30_000;
/** The same where the disk is ours and shows room: a quota or the number of files may be used up all the same. */
const MEMORY_WITH_ROOM_MS = 2_000;
/** Below this PostgreSQL cannot even write its log: its next checkpoint may stop it. */
const MIN_FREE_BYTES = 32 * 1_024 * 1_024;

let lastFull = Number.NEGATIVE_INFINITY;

/** Called for every statement that failed because there was no room. */
function noteDiskFull(): void {
  lastFull = performance.now();
}

/** `folder`: of the embedded database; nothing when the server's disk is not ours to look at. */
export async function checkStorage(folder: string | undefined): Promise<HealthResult> {
  const isFull = (memoryMs: number): HealthResult =>
    performance.now() - lastFull < memoryMs
      ? { status: 'fail', message: 'the disk of the database is full' }
      : { status: 'pass' };
  if (folder === undefined) return isFull(MEMORY_MS);
  const { bavail, bsize } = await statfs(folder);
  if (bavail * bsize >= MIN_FREE_BYTES) return isFull(MEMORY_WITH_ROOM_MS);
  return { status: 'fail', message: 'the disk of the database is nearly full' };
}

interface DriverError {
  readonly code?: unknown;
  readonly message?: unknown;
  readonly routine?: unknown;
}

const asDriverError = (error: unknown): DriverError =>
  typeof error === 'object' && error !== null ? error : {};

/** SQLSTATE of a PostgreSQL error, or the code of a socket error. */
export const codeOf = (error: unknown): string | undefined => {
  const { code } = asDriverError(error);
  return typeof code === 'string' ? code : undefined;
};

const socketCodes = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'EPIPE',
  'ENOENT',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);
/** admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout, too_many_connections. */
const lossStates = new Set(['57P01', '57P02', '57P03', '57P05', '53300']);
/** The server is there, and takes no further connection now: one that is given back, here or elsewhere, makes room. */
export const isFull = (error: unknown): boolean => codeOf(error) === '53300';
/** The driver reports these without a code. */
const driverLoss =
  /^(Connection terminated|Client has encountered a connection error|Client was closed|timeout expired|timeout exceeded when trying)/;

/** True when the connection died or could not be made, so that the statement itself is not to blame. */
export function isConnectionLoss(error: unknown): boolean {
  const code = codeOf(error);
  if (code !== undefined)
    return socketCodes.has(code) || lossStates.has(code) || code.startsWith('08');
  const { message } = asDriverError(error);
  return typeof message === 'string' && driverLoss.test(message);
}

/*
 * A server that takes no changes: it became a standby while our connections stayed open (some services move that way), or
 * its operator allows reading only. Nothing was done. Another connection may lead to the server that does take them.
 */

/** Told by `/ready` until this many ms after the last change that was refused so. */
const READ_ONLY_MEMORY_MS = 10_000;
let lastReadOnly = Number.NEGATIVE_INFINITY;

/** read_only_sql_transaction, where we have not asked for a read-only transaction. */
const isReadOnlyServer = (error: unknown): boolean => codeOf(error) === '25006';

/** Whether a change was refused so not long ago. */
export const tookNoChanges = (): boolean => performance.now() - lastReadOnly < READ_ONLY_MEMORY_MS;

/** A server that stays read only must not make every change cost a new connection: one in this time; ms. */
const REPLACE_EACH_MS = 50;
let lastReplaced = Number.NEGATIVE_INFINITY;

/** Whether to close the connection of a failed statement: it died, or it is the turn of one whose server takes no changes. */
export function replacesConnection(error: unknown): boolean {
  if (!isReadOnlyServer(error)) return isConnectionLoss(error);
  const now = performance.now();
  if (now - lastReplaced < REPLACE_EACH_MS) return false;
  lastReplaced = now;
  return true;
}

/** serialization_failure and deadlock_detected: running the transaction again helps. */
export const isTransient = (error: unknown): boolean =>
  codeOf(error) === '40001' || codeOf(error) === '40P01';

/* Deadlocks: the transaction runs again, so that nobody would see that two pieces of work lock in different orders. */

let deadlocks = 0;
const counted = new WeakSet<object>();

/** Statements of this process that PostgreSQL ended because others waited for them in a circle. */
export const deadlockCount = (): number => deadlocks;

/** Called for every statement that failed; counts each error once. Answers whether it was a deadlock. */
export function noteDeadlock(error: unknown): boolean {
  if (codeOf(error) !== '40P01') return false;
  if (!counted.has(error as object)) deadlocks += 1;
  counted.add(error as object);
  return true;
}

/**
 * The server no longer takes the prepared statement: it is gone (26000), or a schema change gave it
 * another result type. Nothing was executed, so sending the text under another name is safe.
 */
export function isStalePlan(error: unknown): boolean {
  const code = codeOf(error);
  return (
    code === '26000' ||
    (code === '0A000' && asDriverError(error).routine === 'RevalidateCachedQuery')
  );
}

/** disk_full. Nothing was stored. */
const isStorageFull = (error: unknown): boolean => codeOf(error) === '53100';
/** When to try again; somebody has to make room first. */
const FULL_SECONDS = 30;

/**
 * A failure that has a meaning beyond the statement becomes an error of the catalogue; any other comes back as it is.
 * `readOnly`: it comes from a transaction that we began as read only.
 */
export function toPublicError(error: unknown, { readOnly = false } = {}): unknown {
  noteDeadlock(error);
  if (isConnectionLoss(error)) return unavailable(error);
  if (!readOnly && isReadOnlyServer(error)) {
    lastReadOnly = performance.now();
    return errors.UNAVAILABLE({
      message: 'The database takes no changes now: try again',
      retryAfter: 1,
      cause: error,
    });
  }
  if (isStorageFull(error)) {
    noteDiskFull();
    return errors.STORAGE_FULL({ retryAfter: FULL_SECONDS, cause: error });
  }
  // query_canceled: our statement_timeout, or an operator who cancelled it.
  if (codeOf(error) === '57014')
    return errors.TIMEOUT({ message: 'The database took too long to answer', cause: error });
  // invalid_regular_expression: ours are well-formed, so it grew too large for the server.
  if (codeOf(error) === '2201B')
    return errors.INVALID_ARGUMENTS({ message: 'The pattern is too complex', cause: error });
  return error;
}

export const unavailable = (cause?: unknown): PenstockError =>
  errors.UNAVAILABLE({
    message: 'The database is not available now: try again',
    retryAfter: 1,
    cause,
  });
