/** Forms as tests make and submit them. */
import { createHash } from 'node:crypto';
import type { Api, Json } from '../../test/support/api.ts';
import { expectStatus, type TestNode } from '../../test/support/node.ts';
import { waitFor } from '../../test/support/wait-for.ts';

let counter = 0;

/** A form with a name of its own; answers what the platform answered. */
export async function createForm(admin: Api, settings: Json = {}): Promise<Json> {
  counter += 1;
  const form = {
    name: `Form ${counter}`,
    fields: [
      { name: 'email', type: 'email', required: true },
      { name: 'message', type: 'textarea', required: true },
    ],
    enabled: true,
    ...settings,
  };
  return expectStatus(await admin.post('/admin/forms', form), 200, 'create a form').body;
}

export const submissionsOf = async (admin: Api, formId: string, query = {}): Promise<Json[]> =>
  expectStatus(
    await admin.get(`/admin/forms/${formId}/submissions`, { query }),
    200,
    'list submissions',
  ).body.submissions;

/** A submission once everything that happens afterwards has happened. */
export const processed = (admin: Api, id: string): Promise<Json> =>
  waitFor(
    async () => {
      const { body } = await admin.get(`/admin/forms/submissions/${id}`);
      return body.forwarded === null ? undefined : body;
    },
    { what: `the submission ${id} to be processed` },
  );

export type Part = readonly [name: string, value: string | Blob, fileName?: string];

/** Submits a form as a browser does, with its files. */
export async function sendMultipart(
  { addresses }: Pick<TestNode, 'addresses'>,
  path: string,
  parts: readonly Part[],
  headers: Record<string, string> = {},
): Promise<{
  readonly status: number;
  readonly body: Json;
  readonly text: string;
  headers: Headers;
}> {
  const form = new FormData();
  for (const [name, value, fileName] of parts) {
    if (typeof value === 'string') form.append(name, value);
    else form.append(name, value, fileName);
  }
  return answerOf(
    await fetch(new URL(path, addresses.client), {
      method: 'POST',
      body: form,
      headers,
      redirect: 'manual',
    }),
  );
}

/** Submits it without files, as a browser does. */
export const sendUrlEncoded = async (
  { addresses }: Pick<TestNode, 'addresses'>,
  path: string,
  fields: string,
  headers: Record<string, string> = {},
) =>
  answerOf(
    await fetch(new URL(path, addresses.client), {
      method: 'POST',
      body: fields,
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
      redirect: 'manual',
    }),
  );

async function answerOf(response: Response) {
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json') === true;
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (isJson ? JSON.parse(text) : undefined) as Json,
  };
}

/** What a browser does with a challenge. */
export function solve({ puzzle, difficulty }: Json): string {
  for (let n = 0; ; n++) {
    const hash = createHash('sha256').update(`${puzzle}:${n}`).digest();
    if (hash.readUInt32BE(0) >>> (32 - difficulty) === 0) return String(n);
  }
}
