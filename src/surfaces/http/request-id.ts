import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** Short and harmless in logs and headers. */
const safe = /^[A-Za-z0-9._:-]{1,64}$/;

/** The caller's id for the request when it is a safe text, else a new one. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const given = headers['x-request-id'] ?? headers['request-id'];
  return typeof given === 'string' && safe.test(given) ? given : randomUUID();
}
