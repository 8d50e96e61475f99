/** Requests that a well-behaved HTTP client would refuse to send. */

import { Agent, request } from 'node:http';
import { text } from 'node:stream/consumers';
import fc from 'fast-check';
import { type Dictionary, fromSchema, hostileTexts } from './arbitrary.ts';
import { attacked, attackHeaders } from './attacks.ts';
import type { DescribedOperation, Parameter } from './operations.ts';

export interface FuzzRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Text as it goes over the wire. */
  readonly body: string | undefined;
}

export interface FuzzAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
}

/** Random requests to one operation: path, query, headers and body from its own description. */
export function requestsTo(
  operation: DescribedOperation,
  dictionary: Dictionary = new Map(),
): fc.Arbitrary<FuzzRequest> {
  const place = (where: Parameter['in']) =>
    operation.parameters.filter((parameter) => parameter.in === where);
  const path = valuesOf(place('path'), dictionary).map((values) =>
    operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
      encodeSegment(values.find(([known]) => known === name)?.[1]),
    ),
  );
  const query = valuesOf(place('query'), dictionary).map((values) =>
    values.flatMap(queryPairs).join('&'),
  );
  const headers = valuesOf(place('header'), dictionary).map((values) =>
    Object.fromEntries(values.map(([name, value]) => [name, headerText(value)])),
  );
  return fc
    .record({ path, query, headers, more: attackHeaders, body: bodies(operation, dictionary) })
    .map(({ path, query, headers, more, body }) => ({
      path: query ? `${path}?${query}` : path,
      headers: { ...more, ...headers },
      body,
    }));
}

/** A list is a repeated key. */
const queryPairs = ([name, value]: Values[number]): string[] =>
  (Array.isArray(value) ? value : [value]).map((one) => `${name}=${encode(one)}`);

type Values = readonly (readonly [name: string, value: unknown])[];

function valuesOf(parameters: readonly Parameter[], dictionary: Dictionary): fc.Arbitrary<Values> {
  const each = parameters.map((parameter) => {
    const value = fromSchema(parameter.schema, dictionary, parameter.name).map(
      (one) => [parameter.name, one] as const,
    );
    return parameter.required ? value : fc.option(value, { nil: undefined, freq: 2 });
  });
  return fc.tuple(...each).map((values) => values.filter((value) => value !== undefined));
}

function bodies(
  operation: DescribedOperation,
  dictionary: Dictionary,
): fc.Arbitrary<string | undefined> {
  if (operation.method === 'GET') return fc.constant(undefined);
  const raw = fc.constantFrom(
    undefined,
    '',
    '{',
    'null',
    '[]',
    '"text"',
    '{"a":1,}',
    '{"__proto__":{"x":1}}',
    '['.repeat(5000),
  );
  if (!operation.body) return raw;
  const described = fromSchema(operation.body, dictionary);
  const text = (values: fc.Arbitrary<unknown>) => values.map((value) => JSON.stringify(value));
  return fc.oneof(
    { weight: 9, arbitrary: text(described) },
    { weight: 2, arbitrary: text(attacked(described)) },
    { weight: 1, arbitrary: raw },
  );
}

/** Percent-encoding that keeps what cannot be encoded as a broken escape. */
function encode(value: unknown): string {
  const plain = typeof value === 'string' ? value : JSON.stringify(value);
  try {
    return encodeURIComponent(plain ?? '').slice(0, 12_000);
  } catch {
    return '%ED%A0%80';
  }
}

/** A path segment may not be empty or one of the dot segments: that would be another route. */
function encodeSegment(value: unknown): string {
  const encoded = encode(value);
  return encoded === '' ? '%20' : encoded.replaceAll('.', '%2E');
}

/** What Node lets us put into a header; the rest is tested by sockets elsewhere. */
const headerText = (value: unknown): string =>
  (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))
    .replace(/[^\t\x20-\x7e\x80-\xff]/g, '')
    .slice(0, 4000);

/** Credentials that are not. */
export const badCredentials: readonly Readonly<Record<string, string>>[] = [
  {},
  { authorization: 'Bearer' },
  { authorization: 'Bearer cdt_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA' },
  { authorization: 'Bearer eyJhbGciOiJub25lIn0.eyJpZCI6IjEifQ.' },
  { authorization: 'Basic YWRtaW46YWRtaW4=' },
  { authorization: `Bearer ${'x'.repeat(5000)}` },
  { masterkey: 'wrong' },
  { credential: 'cdt_' },
  ...hostileTexts.slice(5, 12).map((text) => ({ authorization: `Bearer ${text}` })),
];

/**
 * Node announces no length for the body of a DELETE by itself. Nor may a random one stand here: with another length than
 * that of its body a request is two of them, or half of one (server.test.ts sends those).
 */
function sentHeaders({ headers, body }: FuzzRequest): Readonly<Record<string, string>> {
  const { 'content-length': _announced, ...others } = headers;
  if (body === undefined) return others;
  const length = String(Buffer.byteLength(body));
  return { 'content-type': 'application/json', ...others, 'content-length': length };
}

/** Sends requests over kept-alive connections. */
export function createSender(baseUrl: string): {
  send(method: string, one: FuzzRequest): Promise<FuzzAnswer>;
  close(): void;
} {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const { hostname, port } = new URL(baseUrl);
  const send = (method: string, one: FuzzRequest) => {
    const { promise, resolve, reject } = Promise.withResolvers<FuzzAnswer>();
    const { path, body } = one;
    const sent = request(
      { agent, hostname, port, method, path, headers: sentHeaders(one) },
      async (response) => {
        const { statusCode: status = 0, headers: answered } = response;
        resolve({
          status,
          contentType: answered['content-type'] ?? '',
          text: await text(response),
        });
      },
    );
    sent.setTimeout(20_000, () =>
      sent.destroy(new Error(`${method} ${path.slice(0, 200)} did not answer in 20 s`)),
    );
    sent.once('error', reject);
    sent.end(body);
    return promise;
  };
  return { send, close: () => agent.destroy() };
}
