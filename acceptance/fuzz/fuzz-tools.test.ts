/** The fuzz test is only worth something if it sees problems: it is tried on answers that have them. */
import fc from 'fast-check';
import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { fromSchema, type JsonSchema } from './arbitrary.ts';
import { createRanking, measured } from './cost.ts';
import type { DescribedOperation } from './operations.ts';
import { requestsTo } from './request.ts';
import { problemsOf } from './verdict.ts';

const output: JsonSchema = {
  type: 'object',
  required: ['id'],
  properties: { id: { type: 'string' } },
};
const validator = Compile(output);
const operation: DescribedOperation = {
  operation: 'x.y',
  id: 'getThing',
  surface: 'client',
  method: 'GET',
  path: '/things/{id}',
  credentials: [],
  parameters: [
    { name: 'id', in: 'path', required: true, schema: { type: 'string', format: 'uuid' } },
    { name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 10 } },
  ],
  body: undefined,
  answers: new Map([
    [200, ['application/json']],
    [404, ['application/json']],
    [500, ['application/json']],
  ]),
  check: (_, body) => (validator.Check(body) ? [] : ['is not a thing']),
};
const answer = (status: number, body: unknown, contentType = 'application/json') => ({
  status,
  contentType,
  text: typeof body === 'string' ? body : JSON.stringify(body),
});
const notFound = {
  name: 'NOT_FOUND',
  status: 404,
  message: 'There is nothing here',
  code: 'NOT_FOUND',
  requestId: 'x',
};

describe('the verdict', () => {
  it('accepts declared answers', () => {
    expect(problemsOf(operation, answer(200, { id: 'a' }), ['secret'])).toEqual([]);
    expect(problemsOf(operation, answer(404, notFound), ['secret'])).toEqual([]);
  });

  it.each([
    ['an internal error', answer(500, { ...notFound, status: 500 })],
    ['an undeclared status', answer(418, { ...notFound, status: 418 })],
    ['a body that is not what was declared', answer(200, { id: 1 })],
    ['an error that is not JSON', answer(404, '<h1>Not found</h1>', 'text/html')],
    ['an error without a code', answer(404, { ...notFound, code: undefined })],
    ['a status that contradicts itself', answer(404, { ...notFound, status: 400 })],
    ['a stack trace', answer(404, { ...notFound, detail: 'Error: x\n    at run (file:1:2)' })],
    ['SQL', answer(404, { ...notFound, message: 'SELECT * FROM "User"' })],
    [
      'a message of the database',
      answer(404, { ...notFound, message: 'duplicate key value violates unique constraint' }),
    ],
    ['a secret', answer(200, { id: 'a secret' })],
  ])('sees %s', (_, given) => {
    expect(problemsOf(operation, given, ['secret'])).not.toEqual([]);
  });
});

describe('random requests', () => {
  it('fit the description most of the time, and do not some of the time', () => {
    const schema: JsonSchema = {
      type: 'object',
      required: ['name', 'kind'],
      properties: {
        name: { type: 'string', minLength: 2, maxLength: 20 },
        kind: { enum: ['a', 'b'] },
        tags: { type: 'array', items: { type: 'string' } },
      },
    };
    const check = Compile(schema);
    const values = fc.sample(fromSchema(schema), { numRuns: 400, seed: 1 });
    const fitting = values.filter((value) => check.Check(value)).length;
    expect(fitting).toBeGreaterThan(100);
    expect(fitting).toBeLessThan(380);
  });

  it('always name the route that they are meant for', () => {
    for (const { path } of fc.sample(requestsTo(operation), { numRuns: 300, seed: 1 }))
      expect(path).toMatch(/^\/things\/[^/?]+(\?limit=.*)?$/);
  });
});

describe('the cost of a request', () => {
  const answering = (...texts: string[]) => {
    const left = [...texts];
    return async () => ({ text: left.shift() ?? '' });
  };
  const huge = 'x'.repeat(65 * 1024 * 1024);

  it('is a problem when it is above the limits twice', async () => {
    expect(await measured(answering(huge, huge))).toMatchObject({
      problems: ['answered 65 MB'],
      cost: { bytes: huge.length },
    });
    expect((await measured(answering(huge, 'small'))).problems).toEqual([]);
    expect((await measured(answering('small', huge))).problems).toEqual([]);
  });

  it('is the time that the loop was busy, not the time that was waited', async () => {
    const busy = async () => {
      const end = performance.now() + 60;
      while (performance.now() < end);
      return { text: '' };
    };
    expect((await measured(busy)).cost.busyMs).toBeGreaterThan(50);
    const ranking = createRanking();
    for (const busyMs of [1, 3, 2]) ranking.note('a', { busyMs, bytes: 0, heap: 0 });
    ranking.note('b', { busyMs: 5, bytes: 0, heap: 0 });
    expect(ranking.worst(5).map((line) => line.slice(0, 7))).toEqual(['b: 5 ms', 'a: 3 ms']);
  });
});
