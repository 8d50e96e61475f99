/**
 * What ours is measured against: the fastest plain program for the same
 * jobs. Fastify without logger, validation or credentials; pipelined connections;
 * prepared statements; JSON rendered by PostgreSQL and passed through.
 *
 * It works on tables of its own with the same columns, indexes, foreign keys and rows
 * (`bare-tables.ts`) on the same server. Runs forked: gets its configuration as a
 * message and answers with its port.
 */
import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply } from 'fastify';
import pg from 'pg';
import { listDocument, oneDocument, PAGE_SIZE } from './workloads.ts';

export interface BareConfig {
  readonly connection: pg.ClientConfig;
  /** Qualified and quoted names. */
  readonly readTable: string;
  readonly writeTable: string;
  readonly authorTable: string;
  readonly sharedTable: string;
  /** Who may read which row of `sharedTable`: (subject, record). */
  readonly grantTable: string;
  readonly readConnections: number;
  /** More than for reads: those that wait for the disk together share one flush. */
  readonly writeConnections: number;
}

export interface BareReady {
  readonly port: number;
}

interface DraftBody {
  readonly title: string;
  readonly body: string;
  readonly rank: number;
  readonly published: boolean;
  readonly tags: readonly string[];
  readonly publishedAt: string;
  readonly author: string;
}

type Change = Pick<DraftBody, 'rank' | 'title'>;

interface GraphqlBody {
  readonly query: string;
  readonly variables?: { readonly id: string };
}

interface PageQuery {
  readonly skip: string;
  readonly limit: string;
  readonly author?: string;
  readonly user?: string;
}

const instant = (column: string): string =>
  `to_char(${column}, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column}`;
const columns = [
  ...['_id', 'title', 'body', 'rank', 'published', 'tags', 'author'],
  ...['"publishedAt"', '"createdAt"', '"updatedAt"'].map(instant),
  '__v',
].join(', ');

const range = 'order by _id limit $1 offset $2';
const page = (rows: string, count?: string): string =>
  `select '{"documents":' || coalesce((select json_agg(r) from (${rows}) r)::text, '[]') || ${count === undefined ? "''" : `',"count":' || (${count})`} || '}' as json`;

/** The statements. The plan is forced to be generic, else PostgreSQL plans each page anew. */
const statements = ({
  readTable,
  writeTable,
  authorTable,
  sharedTable,
  grantTable,
}: BareConfig) => {
  const authorColumns = `_id, name, ${instant('"createdAt"')}, ${instant('"updatedAt"')}, __v`;
  const author = (fields: string): string =>
    `(select row_to_json(a) from (select ${fields} from ${authorTable} where _id = d.author) a) as author`;
  const withAuthor = columns.replace(/\bauthor\b/, author(authorColumns));
  const granted = `from ${sharedTable} d where exists (select 1 from ${grantTable} g where g.subject = $3 and g.record = d._id)`;
  const change = (table: string, also = ''): string =>
    `update ${table} d set rank = $2, title = $3, "updatedAt" = now(), __v = __v + 1 where _id = $1${also}
    returning row_to_json((select r from (select ${columns}) r))::text as json`;
  return {
    get: `select row_to_json(r)::text as json from (select ${columns} from ${readTable} where _id = $1) r`,
    list: page(`select ${columns} from ${readTable} ${range}`, `select count(*) from ${readTable}`),
    withAuthor: page(`select ${withAuthor} from ${readTable} d ${range}`),
    ofAuthor: page(
      // Planned for any limit, PostgreSQL would walk the primary key; the rows of one author are few.
      `select ${columns} from (select * from ${readTable} where author = $3 offset 0) d ${range}`,
      `select count(*) from ${readTable} where author = $3`,
    ),
    getShared: `select row_to_json(r)::text as json from (select ${columns} from ${sharedTable} d where _id = $1 and exists (select 1 from ${grantTable} g where g.subject = $2 and g.record = d._id)) r`,
    check: `select '{"allowed":' || exists (select 1 from ${grantTable} where subject = $1 and record = $2) || '}' as json`,
    graphqlGet: `select '{"data":{"getDatabaseBenchArticleId":' || row_to_json(r) || '}}' as json from (select _id, title, rank, published from ${readTable} where _id = $1) r`,
    shared: page(`select ${columns} ${granted} ${range}`, `select count(*) ${granted}`),
    sharedPublished: page(
      `select ${columns} ${granted} and d.published ${range}`,
      `select count(*) ${granted} and d.published`,
    ),
    graphql:
      `select '{"data":{"getDatabaseBenchArticle":' || json || '}}' as json from (` +
      `${page(`select _id, title, rank, published, ${author('_id, name')} from ${readTable} d ${range}`)}) p`,
    create: `insert into ${writeTable} (_id, title, body, rank, published, tags, "publishedAt", author, "createdAt", "updatedAt", __v)
    values (uuidv7(), $1, $2, $3, $4, $5, $6, $7, now(), now(), 0)
    returning row_to_json((select r from (select ${columns}) r))::text as json`,
    change: change(readTable),
    changeShared: change(
      sharedTable,
      ` and exists (select 1 from ${grantTable} g where g.subject = $4 and g.record = d._id)`,
    ),
  };
};

type Send = (text: string, values: unknown[], reply: FastifyReply) => void;

/** Runs a statement that answers one JSON text and replies with it. */
async function connect(connection: pg.ClientConfig, connections: number): Promise<Send> {
  const clients = await Promise.all(
    Array.from({ length: connections }, async () => {
      const client = new pg.Client({
        ...connection,
        pipeline: true,
        options: '-c TimeZone=UTC -c plan_cache_mode=force_generic_plan',
      });
      await client.connect();
      return client;
    }),
  );
  const names = new Map<string, string>();
  const nameOf = (text: string): string => {
    const name = names.get(text) ?? createHash('sha256').update(text).digest('hex').slice(0, 24);
    names.set(text, name);
    return name;
  };
  let next = 0;
  return (text, values, reply) => {
    next = (next + 1) % clients.length;
    clients[next]?.query<{ json: string }>(
      { name: nameOf(text), text, values },
      (error, result) => {
        if (error) return void reply.code(500).send({ message: error.message });
        const row = result.rows[0];
        if (row === undefined) return void reply.code(404).send({ message: 'Not found' });
        reply.header('content-type', 'application/json; charset=utf-8').send(row.json);
      },
    );
  };
}

function offerPages(app: FastifyInstance, sql: ReturnType<typeof statements>, read: Send): void {
  const pages: readonly [path: string, text: string, parameter?: 'author' | 'user'][] = [
    ['/records', sql.list],
    ['/records-with-author', sql.withAuthor],
    ['/records-of', sql.ofAuthor, 'author'],
    ['/shared', sql.shared, 'user'],
    ['/shared-published', sql.sharedPublished, 'user'],
  ];
  for (const [path, text, parameter] of pages) {
    app.get<{ Querystring: PageQuery }>(path, ({ query }, reply) =>
      read(
        text,
        [Number(query.limit), Number(query.skip), ...(parameter ? [query[parameter]] : [])],
        reply,
      ),
    );
  }
}

async function start(config: BareConfig): Promise<FastifyInstance> {
  const [read, write] = await Promise.all([
    connect(config.connection, config.readConnections),
    connect(config.connection, config.writeConnections),
  ]);
  const sql = statements(config);
  const app = Fastify({ logger: false });
  app.get<{ Params: { id: string } }>('/records/:id', (request, reply) =>
    read(sql.get, [request.params.id], reply),
  );
  app.get<{ Params: { id: string }; Querystring: { user: string } }>(
    '/shared/:id',
    ({ params, query }, reply) => read(sql.getShared, [params.id, query.user], reply),
  );
  app.get('/live', () => ({ status: 'alive', message: 'Penstock is alive' }));
  // As a resolver that knows its documents: their text says which statement answers.
  app.post<{ Body: GraphqlBody }>('/graphql', ({ body: { query, variables } }, reply) => {
    if (query === oneDocument) read(sql.graphqlGet, [variables?.id], reply);
    else if (query === listDocument) read(sql.graphql, [PAGE_SIZE, 0], reply);
    else reply.code(400).send({ errors: [{ message: 'Unknown document' }] });
  });
  app.get<{ Querystring: { user: string; record: string } }>('/check', ({ query }, reply) =>
    read(sql.check, [query.user, query.record], reply),
  );
  offerPages(app, sql, read);
  app.post<{ Body: DraftBody }>('/drafts', ({ body }, reply) =>
    write(
      sql.create,
      [
        body.title,
        body.body,
        body.rank,
        body.published,
        JSON.stringify(body.tags),
        body.publishedAt,
        body.author,
      ],
      reply,
    ),
  );
  app.patch<{ Params: { id: string }; Body: Change }>('/records/:id', ({ params, body }, reply) =>
    write(sql.change, [params.id, body.rank, body.title], reply),
  );
  app.patch<{ Params: { id: string }; Querystring: { user: string }; Body: Change }>(
    '/shared/:id',
    ({ params, query, body }, reply) =>
      write(sql.changeShared, [params.id, body.rank, body.title, query.user], reply),
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  return app;
}

process.once('message', (config: BareConfig) => {
  void start(config).then((app) => {
    const ready: BareReady = { port: (app.server.address() as AddressInfo).port };
    process.send?.(ready);
  });
});
process.once('disconnect', () => process.exit());
