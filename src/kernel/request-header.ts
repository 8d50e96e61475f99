import type { IncomingHttpHeaders } from 'node:http';

/**
 * A header of a request; names in lower case. What runs for every request reads headers here and nowhere else: clients
 * send theirs in many orders, each of which makes an object of another shape, and V8 throws code away that it has
 * compiled for the shapes that it knew. Names differ from call to call, so that it takes no shape for granted here
 * (docs/decisions/365-request-header-access.md).
 */
export function headerOf<N extends keyof IncomingHttpHeaders>(
  headers: IncomingHttpHeaders,
  name: N,
): IncomingHttpHeaders[N] {
  return headers[name];
}
