/** JSON answers of providers: read with suspicion, so that nothing they send can become our failure. */
import type { OutboundFetch, OutboundRequest } from '../../../../kernel/outbound/fetch.ts';
import { type Claims, isClaims } from './profile.ts';

/** An answer that is none of what was asked for. The message holds no part of the answer. */
export class ProviderAnswerError extends Error {
  /** HTTP status, when that is what was wrong. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.name = 'ProviderAnswerError';
    this.status = status;
  }
}

/** The JSON value of a 200 answer. Throws `ProviderAnswerError` or `OutboundError`. */
export async function readValue(fetch: OutboundFetch, url: string, request: OutboundRequest = {}): Promise<unknown> {
  const response = await fetch(url, { ...request, headers: { accept: 'application/json', ...request.headers } });
  const { host } = new URL(url);
  if (response.status !== 200) throw new ProviderAnswerError(`${host} answered status ${response.status}`, response.status);
  try {
    return (await response.json()) as unknown;
  } catch {
    throw new ProviderAnswerError(`${host} answered something that is not JSON`);
  }
}

/** The same, and it must be an object. */
export async function readJson(fetch: OutboundFetch, url: string, request?: OutboundRequest): Promise<Claims> {
  const value = await readValue(fetch, url, request);
  if (!isClaims(value)) throw new ProviderAnswerError(`${new URL(url).host} answered JSON that is not an object`);
  return value;
}
