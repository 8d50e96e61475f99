/** The type declarations of what functions are called with, as operators download them for their editors. */
import type { TSchema } from 'typebox';

/** What does not depend on the schemas of an installation. `ctx` has exactly these parts; a test compares. */
const contextText = `
/** Names of schemas. Schemas that this file does not know are allowed too. */
type SchemaName = keyof PenstockSchemas | (string & {});
type RecordOf<S> = S extends keyof PenstockSchemas ? PenstockSchemas[S] : Record<string, any>;
type Filter = Readonly<Record<string, unknown>>;

interface ListOptions {
  readonly skip?: number;
  readonly limit?: number;
  readonly sort?: string | readonly string[];
  readonly populate?: string | readonly string[];
  readonly scope?: string;
  readonly cursor?: string;
}

interface CreateOptions {
  readonly populate?: string | readonly string[];
  readonly scope?: string;
}

interface ChangeOptions extends CreateOptions {
  /** The version that the record must still have. */
  readonly version?: number;
}

interface Database {
  find<S extends SchemaName>(schema: S, filter?: Filter, options?: ListOptions): Promise<RecordOf<S>[]>;
  findOne<S extends SchemaName>(schema: S, filter?: Filter, options?: Omit<ListOptions, 'limit'>): Promise<RecordOf<S> | null>;
  get<S extends SchemaName>(schema: S, id: string, options?: Pick<ListOptions, 'populate' | 'scope'>): Promise<RecordOf<S>>;
  count(schema: SchemaName, filter?: Filter, options?: Pick<ListOptions, 'scope'>): Promise<number>;
  create<S extends SchemaName>(schema: S, document: Partial<RecordOf<S>>, options?: CreateOptions): Promise<RecordOf<S>>;
  createMany<S extends SchemaName>(schema: S, documents: readonly Partial<RecordOf<S>>[], options?: CreateOptions): Promise<RecordOf<S>[]>;
  update<S extends SchemaName>(schema: S, id: string, changes: Partial<RecordOf<S>>, options?: ChangeOptions): Promise<RecordOf<S>>;
  updateMany<S extends SchemaName>(schema: S, documents: readonly Partial<RecordOf<S>>[], options?: CreateOptions): Promise<RecordOf<S>[]>;
  replace<S extends SchemaName>(schema: S, id: string, document: Partial<RecordOf<S>>, options?: ChangeOptions): Promise<RecordOf<S>>;
  delete(schema: SchemaName, id: string, options?: Pick<ChangeOptions, 'scope' | 'version'>): Promise<void>;
  aggregate(schema: SchemaName, filter: Filter, options: Pick<ListOptions, 'sort' | 'skip' | 'limit' | 'scope'> & { readonly groupBy?: readonly string[]; readonly values?: readonly object[] }): Promise<any>;
}

/** The names that older functions use. */
interface OlderDatabase {
  findOne(schema: SchemaName, query?: Filter): Promise<any>;
  findMany(schema: SchemaName, query?: Filter, options?: ListOptions): Promise<any[]>;
  create(schema: SchemaName, document: object): Promise<any>;
  createMany(schema: SchemaName, documents: readonly object[]): Promise<any[]>;
  findByIdAndUpdate(schema: SchemaName, id: string, document: object): Promise<any>;
  countDocuments(schema: SchemaName, query?: Filter): Promise<number>;
  deleteOne(schema: SchemaName, query: Filter): Promise<{ readonly deletedCount: number }>;
}

/** What acts in the name of somebody: of the caller, or of the system. */
interface Acting {
  readonly db: Database & {
    /** Calls of \`db\` that belong together; what \`work\` throws undoes them. */
    transaction<T>(work: (db: Database) => Promise<T>): Promise<T>;
  };
  readonly database: OlderDatabase;
  readonly auth: {
    user(): Promise<any>;
    userById(id: string): Promise<any>;
    /** Of \`ctx.system\`: \`{ subject, permission, resource }\`, about anybody. */
    can(
      question:
        | { readonly resource: string; readonly action: string; readonly scope?: string }
        | { readonly subject: string; readonly permission: string; readonly resource: string; readonly scope?: string },
    ): Promise<any>;
  };
  readonly files: {
    get(id: string): Promise<any>;
    list(query?: object): Promise<any>;
    url(id: string, query?: object): Promise<any>;
    read(id: string): Promise<any>;
    create(file: object): Promise<any>;
    delete(id: string): Promise<any>;
  };
  readonly messages: {
    email(message: object): Promise<any>;
    sms(message: object): Promise<any>;
    push(message: object): Promise<any>;
    send(message: object): Promise<any>;
  };
  readonly search: { query(search: object): Promise<any> };
  readonly realtime: {
    /** To the members of a channel. With two arguments the event is \`message\`. */
    publish(channel: string, data: unknown): Promise<{ readonly seq?: number }>;
    publish(channel: string, event: string, data: unknown): Promise<{ readonly seq?: number }>;
    /** To all sockets of a user in \`/channels/\`, as the event \`notice\`. */
    toUser(userId: string, data: unknown): Promise<void>;
    toUser(userId: string, event: string, data: unknown): Promise<void>;
  };
  /** An operation by its id, or by method and path: \`ctx.call('GET /database/Post/:id', {params: {id}})\`. */
  call(operation: string, input?: { readonly params?: object; readonly query?: object; readonly body?: unknown }): Promise<any>;
}

interface Response {
  readonly status: number;
  readonly ok: boolean;
  readonly url: string;
  readonly headers: Iterable<[string, string]> & { get(name: string): string | null; has(name: string): boolean };
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

type Log = (...values: unknown[]) => void;

export interface Context extends Acting {
  /** The same in the name of the system; needs \`"rights": "system"\`. */
  readonly system: Acting;
  readonly databaseProvider: OlderDatabase;
  readonly requestId: string;
  readonly function: { readonly name: string; readonly version: number };
  readonly trigger: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** The same for every try of one run. */
  readonly idempotencyKey: string | undefined;
  readonly deadline: Date;
  readonly caller:
    | { readonly kind: 'user'; readonly userId: string }
    | { readonly kind: 'admin'; readonly username: string }
    | { readonly kind: 'anonymous' | 'system' | 'app' };
  readonly user: { readonly _id: string } | undefined;
  /** Aborted a moment before the deadline. */
  readonly signal: { readonly aborted: boolean; addEventListener(type: 'abort', listener: () => void): void };
  readonly log: { readonly debug: Log; readonly log: Log; readonly info: Log; readonly warn: Log; readonly error: Log };
  readonly secrets: { get(name: string): Promise<string | null> };
  fetch(address: string | URL, options?: { readonly method?: string; readonly headers?: object; readonly body?: unknown }): Promise<Response>;
  /** Ends the run with this status (400 to 599), message and code. */
  reject(status: number, message?: string, code?: string): never;
  /** Workflows: does \`work\` once, however often the run begins again. */
  step<T>(name: string, work: () => T | Promise<T>): Promise<T>;
  /** Workflows: milliseconds, or a text such as \`10s\` or \`3d\`. */
  sleep(duration: number | string): Promise<void>;
  sleep(name: string, duration: number | string): Promise<void>;
  /** Workflows: the event, or null after the timeout. */
  waitForEvent(event: string, options?: { readonly id?: string; readonly timeout?: number | string; readonly name?: string }): Promise<any>;
}

export interface Request<Params = Record<string, any>> {
  readonly params: Params;
  readonly bodyParams: Record<string, any>;
  readonly queryParams: Record<string, any>;
  readonly urlParams: Record<string, any>;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly cookies: Readonly<Record<string, string>>;
  readonly context: Readonly<Record<string, any>>;
  /** Of webhooks. */
  readonly rawBody?: string;
}

export interface ReplyOptions {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly cookies?: readonly object[] | Readonly<Record<string, string>>;
  readonly redirect?: string;
}

export type Respond = (data?: unknown, options?: ReplyOptions) => void;
`;

/** One schema, as its records are read. */
export interface TypedSchema {
  readonly name: string;
  readonly record: TSchema;
}

/** A whole file: the schemas of this installation, and `ctx`. */
export const contextTypes = (
  schemas: readonly TypedSchema[],
): string => `/** Types for functions. */
export interface PenstockSchemas {
${schemas.map(({ name, record }) => `  ${JSON.stringify(name)}: ${typeText(record, 1)};`).join('\n')}
}
${contextText}`;

interface Shape {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly required?: readonly string[];
  readonly items?: Shape;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Shape[];
}

const LEVELS = 8;
const words: Readonly<Record<string, string>> = {
  string: 'string',
  number: 'number',
  integer: 'number',
  boolean: 'boolean',
  null: 'null',
};

function typeText(given: unknown, level: number): string {
  const shape = given as Shape;
  if (level > LEVELS) return 'any';
  if (shape.anyOf) return unionOf(shape.anyOf.map((one) => typeText(one, level)));
  if (shape.const !== undefined) return JSON.stringify(shape.const);
  if (shape.enum) return unionOf(shape.enum.map((one) => JSON.stringify(one)));
  if (Array.isArray(shape.type))
    return unionOf(shape.type.map((type: string) => typeText({ ...shape, type }, level)));
  if (shape.type === 'array')
    return `Array<${shape.items ? typeText(shape.items, level + 1) : 'any'}>`;
  if (shape.type === 'object' && shape.properties) return objectText(shape, level);
  return words[String(shape.type)] ?? 'any';
}

const unionOf = (texts: readonly string[]): string => [...new Set(texts)].join(' | ') || 'never';

function objectText({ properties = {}, required = [] }: Shape, level: number): string {
  const indent = '  '.repeat(level + 1);
  const lines = Object.entries(properties).map(
    ([name, one]) =>
      `${indent}${JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${typeText(one, level + 1)};`,
  );
  return `{\n${lines.join('\n')}\n${'  '.repeat(level)}}`;
}
