/** What a connecting client presents: where it comes from, and its token. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'socket.io';
import { presentedCredentials } from '../http/credentials.ts';
import type { CorsOptions } from '../http/options.ts';

const maxTokenLength = 8_192;

/**
 * The bearer of the Authorization header, else of the handshake's `auth`: `token`, `accessToken`, or
 * `authorization` (with or without `Bearer `). Throws 401 for a malformed header.
 */
export function presentedToken(socket: Pick<Socket, 'request' | 'handshake'>, address: string): string | undefined {
  const { bearer } = presentedCredentials(socket.request, 'client', address);
  if (bearer !== undefined) return bearer;
  const { token, accessToken, authorization } = socket.handshake.auth;
  for (const candidate of [token, accessToken, authorization]) {
    if (typeof candidate !== 'string' || candidate === '' || candidate.length > maxTokenLength) continue;
    return candidate.replace(/^bearer /i, '');
  }
  return undefined;
}

/** Whether a page of this origin may connect. Programs send no origin; they are free to. */
export function originAllowed(request: IncomingMessage, { enabled, origins }: CorsOptions): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined || (enabled && origins.includes('*'))) return true;
  if (enabled && origins.includes(origin)) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
