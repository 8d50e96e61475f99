/** Answers whose bytes are read in one piece when they are about to be sent. */
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { errors } from '../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../kernel/operations/operation.ts';
import type { BodyBytes } from '../../kernel/operations/reply.ts';

const seen = { read: 0, freed: 0 };

const common = {
  surface: 'client',
  access: 'public',
  limit: 'standard',
  summary: 'Example',
  mcp: false,
  graphql: false,
  method: 'GET',
  output: TextResult,
  streams: { 'text/plain': 'Text' },
} as const;

/** One without a byte cannot be read. */
async function readBytes(length: number): Promise<BodyBytes> {
  seen.read++;
  if (length === 0) throw errors.CONFLICT({ message: 'Broken' });
  const bytes = Buffer.alloc(length, 'x');
  return {
    bytes,
    free() {
      bytes.fill('y');
      seen.freed++;
    },
  };
}

const operations: readonly Operation[] = [
  defineOperation({
    ...common,
    id: 'bytes.read',
    path: '/bytes',
    input: { query: Type.Object({ length: Type.Integer() }) },
    handler: (_context, { query: { length } }) =>
      Reply.bytes('text/plain', () => readBytes(length), {
        etag: '"v1"',
        'content-length': String(length),
      }),
  }),
  defineOperation({
    ...common,
    id: 'bytes.never',
    path: '/bytes/never',
    deadlineMs: 80,
    input: {},
    handler: () => Reply.bytes('text/plain', () => new Promise<BodyBytes>(() => undefined)),
  }),
];

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture({ operations });
});
afterAll(() => surfaces.close());

describe('bodies that are read in one piece', () => {
  it.each([5, 100_000, 300_000])('of %i bytes are whole, and free their memory then', async (n) => {
    const before = seen.freed;
    const answer = await surfaces.client(`/bytes?length=${n}`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-length')).toBe(String(n));
    expect(await answer.text()).toBe('x'.repeat(n));
    await waitFor(() => seen.freed === before + 1);
  });

  it('are not read for who has them, or asks for the head alone', async () => {
    const before = seen.read;
    const headers = { 'if-none-match': '"v1"' };
    const known = await surfaces.client('/bytes?length=5', { headers });
    expect([known.status, known.headers.get('content-length')]).toEqual([304, null]);
    const head = await surfaces.client('/bytes?length=5', { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length')]).toEqual([200, '5']);
    expect(seen.read).toBe(before);
  });

  it('are errors like any other where they cannot be read, or not in time', async () => {
    expect((await surfaces.client('/bytes?length=0')).status).toBe(409);
    expect((await surfaces.client('/bytes/never')).status).toBe(504);
  });
});
