import Type, { type TObject, type TSchema } from 'typebox';
import { describe, expect, it } from 'vitest';
import { PenstockError } from '../errors.ts';
import { compileOperation } from './compile.ts';
import { MAX_DEPTH } from './invalid-value.ts';
import { defineOperation, TextResult } from './operation.ts';

interface Shape {
  readonly body?: TSchema;
  readonly query?: TObject;
  readonly output?: TSchema;
  readonly strict?: boolean;
}

const compile = ({ body, query, output = TextResult, strict = false }: Shape) =>
  compileOperation(
    defineOperation({
      id: 'test.it',
      surface: 'client',
      method: 'POST',
      path: '/it',
      access: 'public',
      limit: 'standard',
      summary: 'Test',
      strict,
      input: { body, query },
      output,
      handler: () => 'ok',
    }),
  );

const accept = (shape: Shape, body: unknown): unknown =>
  compile(shape).decode({ params: {}, query: '', headers: {}, body }).body;

it('says once which key is not known, with the name that was probably meant', () => {
  const body = Type.Object({ resource: Type.String(), note: Type.Optional(Type.String()) });
  const refused = (given: unknown) => {
    try {
      compile({ body, strict: true }).decode(
        { params: {}, query: '', headers: {}, body: given },
        'near',
      );
    } catch (error) {
      return (error as PenstockError).errors;
    }
    return expect.unreachable('it is refused');
  };
  expect(refused({ resourse: 'Doc:1', other: 1 })).toEqual([
    { path: 'resourse', rule: 'unknown', message: 'is not known here: did you mean resource?' },
    { path: 'other', rule: 'unknown', message: 'is not known here' },
    { path: 'resource', rule: 'required', message: 'is required' },
  ]);
});

it('names records in one spelling, as ids are stored', () => {
  const id = '0197C3A1-5B7E-7C11-8F43-0A1B2C3D4E5F';
  const place = Type.Object({
    id: Type.Optional(Type.String({ format: 'uuid' })),
    ids: Type.Optional(Type.Array(Type.String({ format: 'uuid' }))),
    name: Type.Optional(Type.String()),
  });
  const compiled = compile({ query: place });
  const lower = id.toLowerCase();
  const query = `id=${id}&ids=${id},${lower}&name=${id}`;
  const given = { id, ids: [id], name: id };
  expect(compiled.decode({ params: {}, query, headers: {}, body: undefined }).query).toEqual({
    ...{ id: lower, ids: [lower, lower], name: id },
  });
  expect(compiled.accept({ params: {}, query: given, headers: {}, body: undefined }).query).toEqual(
    {
      ...{ id: lower, ids: [lower], name: id },
    },
  );
  expect(given.id).toBe(id);
});

const refusal = (run: () => unknown): PenstockError => {
  try {
    run();
  } catch (error) {
    if (error instanceof PenstockError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};

const Person = Type.Object({
  name: Type.String({ minLength: 2 }),
  email: Type.Optional(Type.String({ format: 'email' })),
  age: Type.Optional(Type.Integer({ minimum: 0 })),
  note: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  address: Type.Optional(Type.Object({ city: Type.String() })),
  lines: Type.Optional(Type.Array(Type.Object({ price: Type.Number() }))),
  free: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
});

describe('input', () => {
  it('drops undeclared keys at every level, and keeps free JSON', () => {
    const body = {
      name: 'Ann',
      isAdmin: true,
      address: { city: 'B', x: 1 },
      lines: [{ price: 1, y: 2 }],
      free: { z: { deep: 1 } },
    };
    expect(accept({ body: Person }, body)).toEqual({
      name: 'Ann',
      address: { city: 'B' },
      lines: [{ price: 1 }],
      free: { z: { deep: 1 } },
    });
  });

  it('does not change the object it was given', () => {
    const body = { name: 'Ann', extra: 1 };
    accept({ body: Person }, body);
    expect(body).toEqual({ name: 'Ann', extra: 1 });
  });

  it('treats null as absent for optional fields, unless null is a value of theirs', () => {
    expect(accept({ body: Person }, { name: 'Ann', age: null, note: null })).toEqual({
      name: 'Ann',
      note: null,
    });
    expect(refusal(() => accept({ body: Person }, { name: null })).message).toBe(
      'name: must be a string',
    );
  });

  it('reports everything at once, readably', () => {
    const error = refusal(() =>
      accept({ body: Person }, { name: 'A', email: 'x', age: -1, lines: [{ price: 'p' }, {}] }),
    );
    expect(error.status).toBe(400);
    expect(error.message).toBe(
      'name: must have at least 2 characters; email: must be an e-mail address; age: must be at least 0; lines.0.price: must be a number; lines.1.price: is required',
    );
    expect(error.errors?.map(({ rule }) => rule)).toEqual([
      'minLength',
      'format',
      'minimum',
      'type',
      'required',
    ]);
  });

  it('says of what has several forms where in it the problem is', () => {
    const orNull = <T extends TSchema>(schema: T) =>
      Type.Optional(Type.Union([schema, Type.Null()]));
    const lines = orNull(
      Type.Array(
        Type.Object({
          price: orNull(Type.Number({ minimum: 0 })),
          tags: orNull(Type.Array(Type.String())),
        }),
      ),
    );
    const body = Type.Object({
      lines,
      kind: orNull(Type.Union([Type.Literal('a'), Type.Literal('b')])),
      note: orNull(Type.String({ maxLength: 2 })),
      keep: Type.Optional(Type.Union([Type.Boolean(), Type.Object({ days: Type.Integer() })])),
      wide: orNull(Type.Union([Type.Integer(), Type.String()])),
    });
    const problems = (value: unknown) => refusal(() => accept({ body }, value)).message;
    expect(
      problems({
        lines: [{ price: 1 }, { price: 'x', tags: ['a', 2] }, 3, { price: -1, tags: 4 }],
      }),
    ).toBe(
      'lines.1.price: must be a number or null; lines.1.tags.1: must be a string; lines.2: must be an object; ' +
        'lines.3.price: must be at least 0; lines.3.tags: must be an array or null',
    );
    expect([problems({ keep: { days: 'x' } }), problems({ keep: 1 })]).toEqual([
      'keep.days: must be a whole number',
      'keep: must be true or false or an object',
    ]);
    expect(problems({ wide: 1.5 })).toBe('wide: must be a whole number or a string or null');
    expect(problems({ lines: 1, kind: 'c', note: 'long' })).toBe(
      'lines: must be an array or null; kind: must be one of "a", "b"; note: must have at most 2 characters',
    );
  });

  it('takes no time that is no moment for programs and databases', () => {
    const Until = Type.Object({ at: Type.String({ format: 'date-time' }) });
    const taken = [
      '2026-01-31T12:00:00Z',
      '2026-01-31t12:00:00.5+02:00',
      '2026-01-31T12:00:00-15:59',
      '9999-12-31T23:59:59Z',
    ];
    for (const at of taken) expect(accept({ body: Until }, { at })).toEqual({ at });
    for (const at of [
      '2016-12-31T23:59:60Z',
      '2026-01-31T12:00:00Z[Europe/Berlin]',
      '0000-06-01T00:00:00Z',
      '0001-01-01T00:00:00+12:00',
      '9999-12-31T23:59:59-12:00',
      '2026-01-31T12:00:00+16:00',
      '2026-01-31T12:00:00-23:59',
    ])
      expect(refusal(() => accept({ body: Until }, { at })).message).toBe(
        'at: must be an ISO 8601 date and time with an offset below 16 hours, of the years 1 to 9999 and without leap seconds',
      );
  });

  it('names missing fields of an absent body, and refuses other top-level values', () => {
    expect(refusal(() => accept({ body: Person }, undefined)).message).toBe('name: is required');
    for (const body of [null, [], 'x', 1, true])
      expect(refusal(() => accept({ body: Person }, body)).message).toBe('body: must be an object');
  });

  it('joins problems of query and body and does not report one field twice', () => {
    const query = Type.Object({ limit: Type.Integer() });
    const error = refusal(() =>
      compile({ body: Person, query }).decode({
        params: {},
        query: 'limit=x',
        headers: {},
        body: {},
      }),
    );
    expect(error.message).toBe('limit: must be a whole number; name: is required');
  });

  it('refuses unknown keys when strict', () => {
    const error = refusal(() =>
      accept(
        { body: Person, strict: true },
        { name: 'Ann', x: 1, address: { city: 'B', y: 1 }, lines: [{ price: 1, z: 1 }] },
      ),
    );
    expect(error.message).toBe(
      'x: is not known here; address.y: is not known here; lines.0.z: is not known here',
    );
  });

  it('refuses unknown keys in what is closed, and operators where only those are', () => {
    const switches = Type.Object(
      { read: Type.Optional(Type.Object({ open: Type.Optional(Type.Boolean()) })) },
      { closed: 'all' },
    );
    const record = Type.Object(
      { n: Type.Optional(Type.Number()), free: Type.Optional(Type.Unknown()) },
      { closed: 'operators' },
    );
    const body = Type.Object({
      switches: Type.Optional(switches),
      docs: Type.Optional(Type.Array(record)),
    });
    expect(
      refusal(() => accept({ body }, { extra: 1, switches: { read: { opn: true }, rd: {} } }))
        .message,
    ).toBe('switches.read.opn: is not known here; switches.rd: is not known here');
    expect(
      refusal(() => accept({ body }, { docs: [{ extra: 1 }, { $inc: { n: 1 } }] })).message,
    ).toBe('docs.1.$inc: is not an operator here');
    const accepted = { switches: { read: { open: true } }, docs: [{ n: 1, free: { $inc: 1 } }] };
    expect(
      accept({ body }, { ...accepted, extra: 1, docs: [{ ...accepted.docs[0], extra: 1 }] }),
    ).toEqual(accepted);
  });

  it('refuses hostile strings and names, also inside free JSON', () => {
    expect(refusal(() => accept({ body: Person }, { name: 'a\0b' })).message).toBe(
      'name: must not hold the NUL character',
    );
    expect(
      refusal(() => accept({ body: Person }, { name: 'ok', free: { a: ['\ud800'] } })).message,
    ).toBe('free.a.0: must be well-formed Unicode');
    expect(
      refusal(() =>
        accept({ body: Person }, JSON.parse('{"name":"ok","free":{"__proto__":{"x":1}}}')),
      ).message,
    ).toBe('free.__proto__: is not allowed as a name');
    expect(
      refusal(() =>
        accept({ body: Person }, { name: 'ok', free: { constructor: { prototype: {} } } }),
      ).status,
    ).toBe(400);
    expect(({} as Record<string, unknown>).x).toBeUndefined();
  });

  it('refuses deep nesting instead of overflowing the stack', () => {
    const deep = JSON.parse(`${'[['.repeat(50_000)}${']]'.repeat(50_000)}`) as unknown;
    expect(refusal(() => accept({ body: Person }, { name: 'ok', free: { deep } })).message).toBe(
      `free: must not nest deeper than ${MAX_DEPTH} levels`,
    );
  });

  it('shortens names that came from the caller', () => {
    const error = refusal(() =>
      accept({ body: Person, strict: true }, { name: 'Ann', ['k'.repeat(64_000)]: 1 }),
    );
    expect(error.message.length).toBeLessThan(300);
  });

  it('accepts typed values from other transports by the same rules', () => {
    const typed = { params: {}, query: {}, headers: {}, body: { name: 'Ann', x: 1 } };
    expect(compile({ body: Person }).accept(typed).body).toEqual({ name: 'Ann' });
  });
});

describe('output', () => {
  const project = (output: TSchema, value: unknown) => compile({ output }).project(value);

  it('lets only declared keys out', () => {
    const output = Type.Object({
      user: Type.Object({ id: Type.String() }),
      list: Type.Array(Type.Object({ a: Type.Number() })),
    });
    const value = { user: { id: '1', password: 'x' }, list: [{ a: 1, b: 2 }], hash: 'y' };
    expect(project(output, value)).toEqual({ user: { id: '1' }, list: [{ a: 1 }] });
  });

  it('lets out what any part of a union or intersection declares', () => {
    const output = Type.Union([
      Type.String(),
      Type.Object({ a: Type.Number() }),
      Type.Object({ b: Type.Number() }),
    ]);
    expect(project(output, { a: 1, b: 2, c: 3 })).toEqual({ a: 1, b: 2 });
    expect(
      project(
        Type.Intersect([Type.Object({ a: Type.Number() }), Type.Object({ b: Type.Number() })]),
        { a: 1, b: 2, c: 3 },
      ),
    ).toEqual({
      a: 1,
      b: 2,
    });
  });

  it('keeps null, dates and open objects', () => {
    const at = new Date(0);
    expect(
      project(Type.Object({ at: Type.Unknown(), gone: Type.Optional(Type.String()) }), {
        at,
        gone: null,
        x: 1,
      }),
    ).toEqual({
      at,
      gone: null,
    });
    expect(project(Type.Record(Type.String(), Type.Unknown()), { any: 1 })).toEqual({ any: 1 });
    expect(project(Type.Object({}), { any: 1 })).toEqual({});
  });
});
