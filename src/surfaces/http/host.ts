/** The `Host` header: exactly one (RFC 9112 3.2). What stands behind two of them may believe the other one (CWE-444). */
import type { IncomingMessage } from 'node:http';
import { errors } from '../../kernel/errors.ts';

/** Throws 400. Probes of HTTP/1.0 may leave it out. */
export function requireOneHost({ rawHeaders, httpVersion }: IncomingMessage): void {
  let hosts = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i];
    if (name?.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  if (hosts === 1 || (hosts === 0 && httpVersion === '1.0')) return;
  throw errors.INVALID_ARGUMENTS({ message: 'A request has one Host header' });
}
