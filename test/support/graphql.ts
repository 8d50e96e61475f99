/** The HTTP surfaces over a few operations that answer from memory, for tests of GraphQL. */
import Type, { type TObject, type TSchema } from 'typebox';
import { errors } from '../../src/kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../src/kernel/operations/operation.ts';
import type { GraphqlOptions } from '../../src/surfaces/graphql/options.ts';
import { fixedGraphqlOptions } from '../../src/surfaces/graphql/options.ts';
import type { Json } from './api.ts';
import {
  type FixtureOptions,
  type SurfaceFixture,
  startSurfaceFixture,
} from './surface-fixture.ts';

export interface GraphqlFixture extends SurfaceFixture {
  /** Posts a document. */
  ask(
    query: string,
    variables?: object,
    headers?: Readonly<Record<string, string>>,
  ): Promise<GraphqlAnswer>;
  /** Posts any body. */
  send(body: unknown, headers?: Readonly<Record<string, string>>): Promise<GraphqlAnswer>;
  /** What operations were called with, as `id: input`. */
  readonly calls: readonly { readonly id: string; readonly query: Json; readonly body: Json }[];
}

export interface GraphqlAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly data: Json;
  readonly errors: Json;
}

export async function startGraphqlFixture(
  graphql: Partial<GraphqlOptions> = {},
  options: FixtureOptions = {},
): Promise<GraphqlFixture> {
  const calls: { id: string; query: Json; body: Json }[] = [];
  const operations =
    options.operations ??
    libraryOperations((id, query, body) => void calls.push({ id, query, body }));
  const fixture = await startSurfaceFixture({
    ...options,
    operations,
    graphql: fixedGraphqlOptions(graphql),
  });
  const send: GraphqlFixture['send'] = async (body, headers = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fixture.client('/graphql', {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: text,
    });
    return answerOf(response);
  };
  return {
    ...fixture,
    calls,
    send,
    ask: (query, variables, headers) => send({ query, variables }, headers),
  };
}

export async function answerOf(response: Response): Promise<GraphqlAnswer> {
  const text = await response.text();
  const body: Json = (response.headers.get('content-type') ?? '').includes('json')
    ? JSON.parse(text)
    : {};
  return {
    status: response.status,
    headers: response.headers,
    text,
    data: body.data,
    errors: body.errors,
  };
}

const id = Type.String({ format: 'uuid' });
const relation = (model: string): TSchema =>
  Type.Optional(
    Type.Union([Type.Union([id, Type.Object({ _id: id })], { relation: model }), Type.Null()]),
  );

const Author = Type.Object(
  { _id: id, name: Type.Optional(Type.String()), best: relation('Book') },
  { record: 'Author' },
);
const Book = Type.Object(
  {
    _id: id,
    title: Type.Optional(Type.String({ description: 'With """ in it' })),
    author: relation('Author'),
    authors: Type.Optional(
      Type.Array(Type.Union([id, Type.Object({ _id: id })], { relation: 'Author' })),
    ),
    publisher: relation('Publisher'),
  },
  { record: 'Book' },
);

const firstAuthor = { _id: '00000000-0000-7000-8000-000000000001', name: 'Ada' };
const firstBook = {
  _id: '00000000-0000-7000-8000-0000000000b1',
  title: 'One',
  author: firstAuthor,
  authors: [firstAuthor],
  publisher: null,
};

type Note = (id: string, query: unknown, body: unknown) => void;

/** Books and authors, a few routes with odd names, and one that costs a budget of its own. */
export function libraryOperations(note: Note): readonly Operation[] {
  const common = {
    surface: 'client',
    access: 'public',
    limit: 'standard',
    summary: 'Example',
  } as const;
  const populate = Type.Optional(Type.Array(Type.String()));
  const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000, default: 25 }));
  const list = (name: string, schema: TObject, one: object): Operation =>
    defineOperation({
      ...common,
      id: `example.${name}.list`,
      method: 'GET',
      path: `/database/${name}`,
      input: { query: Type.Object({ limit, populate }) },
      output: Type.Object({ documents: Type.Array(schema), count: Type.Integer() }),
      handler: (_context, { query }) => {
        note(`example.${name}.list`, query, undefined);
        return Reply.json(JSON.stringify({ documents: [one], count: 1 }));
      },
    });
  const text = (path: string): Operation =>
    defineOperation({
      ...common,
      id: `example${path}`,
      method: 'GET',
      path,
      input: {},
      output: TextResult,
      handler: () => path,
    });
  return [
    list('Book', Book, firstBook),
    list('Author', Author, firstAuthor),
    text('/a-b'),
    text('/ab'),
    text('/a.b'),
    defineOperation({
      ...common,
      id: 'example.numbers',
      method: 'GET',
      path: '/numbers',
      input: {},
      output: Type.Array(Type.Number()),
      handler: () => [1, 2.5],
    }),
    defineOperation({
      ...common,
      id: 'example.echo',
      method: 'POST',
      path: '/echo',
      input: {
        query: Type.Object({ params: Type.Optional(Type.String()) }),
        body: Type.Object({ value: Type.Unknown() }),
      },
      output: Type.Object({ value: Type.Unknown(), 'odd-name': Type.Optional(Type.String()) }),
      handler: (_context, { query, body }) => {
        note('example.echo', query, body);
        return { value: body.value, 'odd-name': 'odd' };
      },
    }),
    defineOperation({
      ...common,
      id: 'example.login',
      method: 'POST',
      path: '/login',
      limit: { requests: 3, seconds: 900, account: 'email' },
      input: { body: Type.Object({ email: Type.String() }) },
      output: TextResult,
      handler: () => 'in',
    }),
    defineOperation({
      ...common,
      id: 'example.mine',
      access: 'user',
      method: 'GET',
      path: '/mine',
      input: {},
      output: TextResult,
      handler: ({ caller }) => caller.kind,
    }),
    defineOperation({
      ...common,
      id: 'example.crash',
      method: 'GET',
      path: '/crash',
      input: {},
      output: TextResult,
      errors: [errors.CONFLICT],
      handler: () => {
        throw new Error('select password from users');
      },
    }),
    defineOperation({
      ...common,
      id: 'example.hidden',
      method: 'GET',
      path: '/hidden',
      graphql: false,
      input: {},
      output: TextResult,
      handler: () => '',
    }),
    defineOperation({
      ...common,
      id: 'example.old',
      method: 'GET',
      path: '/old',
      legacy: true,
      input: {},
      output: TextResult,
      handler: () => '',
    }),
  ];
}
