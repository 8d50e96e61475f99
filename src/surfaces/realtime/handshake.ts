/** What a connecting client presents: where it comes from, and its token. */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'socket.io';
import { presentedApp } from '../../kernel/apps.ts';
import { presentedCredentials } from '../http/credentials.ts';
import type { CorsOptions } from '../http/options.ts';
import type { Presented } from './session.ts';

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

/** Everything that decides who connects. Browsers cannot set headers here: the app may stand in the handshake's `auth` too. */
export function presented(socket: Pick<Socket, 'request' | 'handshake'>, address: string): Presented {
  const app = presentedApp(socket.request.headers);
  const { clientid, clientsecret, csrfToken } = socket.handshake.auth;
  const { cookies, sender } = presentedCredentials(socket.request, 'client', address);
  return {
    token: presentedToken(socket, address),
    cookies,
    // A handshake is a GET, but what it opens is no reading: a page of somebody else must not open it by a cookie.
    sender: sender && { ...sender, method: 'CONNECT', csrfToken: sender.csrfToken ?? textOf(csrfToken) },
    app: { ...app, clientId: app.clientId ?? textOf(clientid), clientSecret: app.clientSecret ?? textOf(clientsecret) },
    address,
  };
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' && value.length <= maxTokenLength ? value : undefined;

/** Whether a page of this origin may connect. Programs send no origin; they are free to. */
export function originAllowed(request: IncomingMessage, { enabled, origins }: CorsOptions): boolean {
  const { origin, host } = request.headers;
  if (origin === undefined || (enabled && origins.includes('*'))) return true;
  if (enabled && origins.includes(origin)) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
