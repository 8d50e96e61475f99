/** Requests of the benchmark to the platform that it measures. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Platform } from '../platform.ts';

export type Json = Record<string, unknown>;
export interface Hit {
  readonly document: { readonly _id: string; readonly title: string };
}

export async function call(
  { adminOrigin, clientOrigin, masterKey }: Platform,
  path: string,
  { body, token, method = 'POST' }: { body?: Json; token?: string; method?: string } = {},
): Promise<Json> {
  const [origin, credential] =
    token === undefined
      ? [adminOrigin, { masterkey: masterKey }]
      : [clientOrigin, token === '' ? {} : { authorization: `Bearer ${token}` }];
  const answer = await fetch(origin + path, {
    method,
    headers: { 'content-type': 'application/json', ...(credential as Record<string, string>) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (answer.status !== 200) throw new Error(`${path} answered ${answer.status} ${text}`);
  return JSON.parse(text) as Json;
}

export interface User {
  readonly userId: string;
  readonly token: string;
}

export async function register(platform: Platform): Promise<User> {
  const body = { email: `${crypto.randomUUID()}@example.com`, password: 'Battery-Staple-17' };
  await call(platform, '/authentication/local/new', { body, token: '' });
  const session = await call(platform, '/authentication/local', { body, token: '' });
  return { userId: String(session.userId), token: String(session.accessToken) };
}

export async function search(platform: Platform, body: Json): Promise<readonly Hit[]> {
  const { hits } = await call(platform, '/embeddings/search', { body: { limit: 10, ...body } });
  return hits as readonly Hit[];
}

export async function waitForRecords(
  platform: Platform,
  schemaName: string,
  records: number,
): Promise<void> {
  for (;;) {
    const path = `/embeddings/status?schemaName=${schemaName}`;
    const { generationQueue } = await call(platform, path, { method: 'GET' });
    if ((generationQueue as { completed: number }).completed >= records) return;
    // Seldom: counting is not what is measured.
    await sleep(500);
  }
}

/** The search that reads all vectors into memory: it goes on when the request is over. */
export async function firstSearch(platform: Platform): Promise<void> {
  const body = { schemaName: 'Big', text: 'anything' };
  for (let left = 100; ; left -= 1) {
    try {
      await search(platform, body);
      return;
    } catch (error) {
      if (left === 0 || !(error instanceof Error) || !error.message.includes('INDEX_PENDING'))
        throw error;
    }
  }
}
