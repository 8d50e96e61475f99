/** Whole sign-ins at a fake provider, in one call. */
import type { Answer, Json } from '../api.ts';
import type { TestNode } from '../node.ts';
import { createBrowser } from './browser.ts';
import type { FakeProvider } from './fake-provider.ts';

export interface FakeSignIn {
  /** Of the ID token, beside those that every good one has. */
  readonly claims: { readonly sub: string; readonly [claim: string]: unknown };
  /** Of the start. */
  readonly query?: Record<string, string>;
  readonly token?: string;
}

/** Sends a new browser through the provider `name`, which says that this is who signed in. */
export async function signInAs(
  platform: TestNode,
  fake: FakeProvider,
  name: string,
  { claims, query, token }: FakeSignIn,
): Promise<Answer<Json>> {
  const browser = createBrowser(platform.client);
  const { url, state } = await browser.start(
    name,
    query,
    token === undefined ? {} : { authorization: `Bearer ${token}` },
  );
  const idToken = fake.sign(fake.claims({ nonce: url.searchParams.get('nonce'), ...claims }));
  const code = `code-for-${idToken.slice(-20)}`;
  fake.issue(code, { access_token: `at-${claims.sub}`, token_type: 'Bearer', id_token: idToken });
  return browser.back(name, { state, code });
}
