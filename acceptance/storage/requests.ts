/** Requests about files as tests send them: forms, addresses, raw contents. */
import type { Json } from '../../test/support/api.ts';
import type { TestNode, TestUser } from '../../test/support/node.ts';

export interface SentForm {
  readonly status: number;
  readonly body: Json;
}

/** Fields stand before the file, or behind it. */
export interface FormOptions {
  readonly fields?: Readonly<Record<string, string>>;
  readonly fieldsAfter?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Uploads one file as a form. */
export async function sendForm(
  node: TestNode,
  user: Pick<TestUser, 'accessToken'>,
  [name, content]: readonly [name: string, content: string | Buffer],
  options: FormOptions = {},
): Promise<SentForm> {
  const { fields = {}, fieldsAfter = {}, type = 'text/plain', headers = {} } = options;
  const form = new FormData();
  for (const [key, value] of Object.entries(fields)) form.set(key, value);
  form.set('file', new Blob([content as never], { type }), name);
  for (const [key, value] of Object.entries(fieldsAfter)) form.set(key, value);
  const response = await fetch(new URL('/storage/upload', node.addresses.client), {
    method: 'POST',
    body: form,
    headers: { authorization: `Bearer ${user.accessToken}`, ...headers },
  });
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text) as Json };
}

export interface ReadContent {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Buffer;
}

/** Whatever a full address, or a path of the client surface, answers. */
export async function readContent(
  node: TestNode,
  address: string,
  { headers = {}, method = 'GET' }: { headers?: Record<string, string>; method?: string } = {},
): Promise<ReadContent> {
  const url = new URL(address, node.addresses.client);
  const response = await fetch(url, { method, headers });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes };
}

/** Sends bytes to a signed address. */
export async function sendTo(
  url: string,
  content: string | Buffer,
  headers: Record<string, string> = {},
): Promise<SentForm> {
  const response = await fetch(url, { method: 'PUT', body: content as never, headers });
  return { status: response.status, body: JSON.parse(await response.text()) as Json };
}

export const bearer = ({ accessToken }: Pick<TestUser, 'accessToken'>) => ({
  authorization: `Bearer ${accessToken}`,
});
