/**
 * Closing a connection on which the client is still sending. Closing at once
 * makes the kernel reset the connection, and the client never sees why it was
 * refused; reading for ever lets it go on. So: a little more is read and thrown
 * away, for a short time.
 */
import type { IncomingMessage } from 'node:http';

const MAX_BYTES = 1_048_576;
const MAX_MS = 1_000;

/** Unread bodies up to this size are simply read away and the connection is kept. */
export const KEEP_ALIVE_BYTES = 65_536;

/** Calls `close` once, when the client stopped sending or had its chance. */
export function linger(request: IncomingMessage, close: () => void): void {
  let left = MAX_BYTES;
  const finish = (): void => {
    clearTimeout(timer);
    request.off('data', count).off('end', finish).off('close', finish).off('error', finish);
    close();
  };
  const count = (chunk: Buffer): void => {
    left -= chunk.length;
    if (left < 0) finish();
  };
  const timer = setTimeout(finish, MAX_MS);
  timer.unref();
  request.on('data', count).on('end', finish).on('close', finish).on('error', finish).resume();
}
