/**
 * The one description of an operation. REST routes, OpenAPI, GraphQL, MCP tools,
 * the typed client and the docs all come from it; nothing about an operation is
 * written anywhere else.
 */

import type { Static, TObject, TSchema } from 'typebox';
import Type from 'typebox';
import type { ErrorFactory } from '../errors.ts';
import type { AccountItem } from '../request-account/request-account.ts';
import { type InputObject, undeclaredObject } from './input-object.ts';
import type { OpenLiveRead } from './live-read.ts';
import type {
  BodyType,
  DecodedInput,
  InputSchemas,
  OperationContext,
  OperationInput,
  StreamDeclaration,
} from './operation-input.ts';
import type { Reply } from './reply.ts';

export type { Cookie } from './reply.ts';
export { Reply } from './reply.ts';

export type SurfaceName = 'client' | 'admin';
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * Who may call. The surface turns the presented credential into a caller before
 * the handler runs, and refuses with 401 or 403.
 *
 * - `public`: anybody; credentials are not looked at
 * - `optionalUser`: nobody, or a user; a presented token that is not valid is 401
 * - `user`: a signed-in user; `partialUser`: also one who still needs a second factor
 * - `refreshToken`: the bearer is a refresh token, which the handler consumes (`context.bearer`)
 * - `admin`: any of the three admin credentials; `superAdmin`: and with that right
 * - `masterKey`: the master key itself; `adminSecondFactor`: the short token of an admin login
 */
export type Access =
  | 'public'
  | 'optionalUser'
  | 'user'
  | 'partialUser'
  | 'refreshToken'
  | 'admin'
  | 'superAdmin'
  | 'masterKey'
  | 'adminSecondFactor';

/** How often one user may do this. An address without a user may as often for each of the people it stands for. */
export interface RateLimit {
  readonly requests: number;
  readonly seconds: number;
  /**
   * Body field that names the account or recipient the request is about (`email`).
   * Then `requests` counts per account and address, and so many times that per address alone.
   */
  readonly account?: string;
}

/** The limit of everything that guesses or sends nothing: set by configuration, see docs/reference. */
export const standardLimit = 'standard';
/** Health checks: answered before every limit, so that a flood of others never makes a supervisor end a healthy process. */
export const noLimit = 'none';
export type Limit = typeof standardLimit | typeof noLimit | RateLimit;

/** Output of operations whose handler answers text: `{"result": "..."}` on the wire. */
export const TextResult = Type.Object({ result: Type.String() });

/** In `StreamDeclaration.contentTypes`: whatever the client sends. */
export const anyType = '*/*';

interface OperationFacts {
  /** Stable dotted name: `<module>.<subject>.<verb>`. */
  readonly id: string;
  readonly surface: SurfaceName;
  readonly method: Method;
  /** Route template with `:name` parameters. */
  readonly path: string;
  readonly access: Access;
  readonly limit: Limit;
  /** What the module declared, where operators set another limit in its place (`router.rateLimit.operations`). */
  readonly replacedLimit?: RateLimit;
  /** Budgets that operators added to the route. The platform sets them; a declaration never does. */
  readonly addedLimits?: readonly RateLimit[];
  /** Shape of the 200 answer. A handler may return text where this is `TextResult`. */
  readonly output: TSchema;
  /** Catalogue errors beyond those that follow from access, input and limit. */
  readonly errors?: readonly ErrorFactory[];
  readonly summary: string;
  readonly description?: string;
  /** Under what documents list it; its module unless set. */
  readonly tag?: string;
  /** Answers hold records in place of the ids of relations although the input does not ask for that. */
  readonly populates?: boolean;
  /** Bytes; 1 MiB unless set. Checked before the body is read, and while it arrives. Streams must name theirs. */
  readonly bodyLimit?: number;
  /**
   * Values that a JSON body may hold (413 beyond it); 500,000 unless set. Each takes time to parse and to check, so who takes
   * large texts of few values says so.
   */
  readonly bodyValues?: number;
  /**
   * How the body may be written; JSON alone unless set. A form's texts are decoded like a query string, by the
   * types of `input.body`. Browsers send forms across origins without asking: take them only where no
   * cookie is believed, or where the operation has its own proof (`state`, a one-time token).
   */
  readonly bodyTypes?: readonly BodyType[];
  /** Milliseconds that the work and its answer may take, where the usual deadline is too short; at most an hour. */
  readonly deadlineMs?: number;
  /** What one request may use where the usual limits do not fit. */
  readonly account?: Readonly<Partial<Record<AccountItem, number>>>;
  /** May take long or much memory, as lists, filters and batches may: a caller has few of them at once. */
  readonly heavy?: boolean;
  /** Media types of streamed answers (`Reply.stream`), and what they hold; `output` is then what else may be answered. */
  readonly streams?: Readonly<Record<string, string>>;
  /** Unknown input keys: dropped unless this is set, then 400. */
  readonly strict?: boolean;
  /** The same, where `core.input.unknown` would decide; `warn` also names it under `warnings` of the answer. */
  readonly unknownInput?: 'refuse' | 'report' | 'warn' | undefined;
  /** An MCP tool unless false. */
  readonly mcp?: boolean;
  /** Has a parameter `module`, so MCP offers one tool per configuration; `config`: and the body is that configuration. */
  readonly perModule?: 'config' | 'name';
  /**
   * What inputs name that belongs to somebody: asked of the scopes of a token before the handler runs. By the name of
   * the input, wherever it stands. Admin inputs with a telling name (`module`, `schemaName`, `resource`) must say it.
   */
  readonly about?: Readonly<Record<string, InputObject>>;
  /** Makes or changes accounts and tokens of operators: only for credentials without scopes. */
  readonly unscoped?: true;
  /** Changes nothing although its method is not GET (queries with a body): tokens that may only read may call it. */
  readonly readOnly?: boolean;
  /**
   * A GET that changes something with the rights of its caller. Browsers follow links from anywhere with their cookies:
   * so no cookie counts for it, and tokens that may only read do not call it.
   */
  readonly changes?: true;
  /** For models: may undo work that somebody has done. All but GET and POST, unless set. */
  readonly destructive?: boolean;
  /** For models: reaches people or systems outside (mail, SMS, push). */
  readonly openWorld?: boolean;
  /** The answer holds a secret that is shown once; operators may keep such operations from models. */
  readonly answersSecret?: boolean;
  /** A GraphQL field unless false. */
  readonly graphql?: boolean;
  /** False on operations whose answer is a secret: it must not be stored for replay. */
  readonly idempotency?: boolean;
  /**
   * Whether calls are written to the audit log. Admin surface: all but those that only read, unless set. Client surface:
   * only where it is true, never where the path holds a secret.
   */
  readonly audit?: boolean;
  /**
   * Admin surface: the row is written when the call has ended, instead of with its first change. For what commits step
   * by step, and where only the end tells who it was.
   */
  readonly auditAtEnd?: boolean;
  /**
   * Whether this input asks for stored secrets in clear. Such calls are written to the audit log, and refused to tokens
   * that may only read and, where operators say so, to models.
   */
  readonly reveals?: (input: DecodedInput) => boolean;
  /** What the audit log may say of the input, where its own redaction by field names does not know the secrets. */
  readonly auditChanges?: (input: Pick<DecodedInput, 'params' | 'query' | 'body'>) => unknown;
  /** Answers also requests that come from no registered app (health, public keys). Callbacks under `/hook/` always do. */
  readonly anyApp?: boolean;
  /** A route of the 0.16 line. */
  readonly legacy?: boolean;
  readonly deprecated?: boolean;
  /** Admin operations that work before the first password was changed; all others answer 403 until then. */
  readonly beforePasswordChange?: boolean;
  /** Other spellings of the same route that existing clients use. Same checks, never MCP or GraphQL. */
  readonly aliases?: readonly { readonly method: Method; readonly path: string }[];
  /** Its answer can be listened to (realtime): what has to be read for that. For operations of users that only read. */
  readonly live?: OpenLiveRead;
  /** What an OPTIONS request to its path is told beside the methods, where a protocol asks for that. Names in lower case. */
  readonly optionsHeaders?: Readonly<Record<string, string>>;
  /** Answers with the output's shape but another status, and when (`GET /ready`: 503 while not ready). */
  readonly otherStatuses?: Readonly<Record<number, string>>;
  /** When the operation answers plain text instead of its output, in words (the health routes, for old probes). */
  readonly textAnswer?: string;
  /** Content type of that text; `text/plain` unless set. */
  readonly textType?: string;
}

/** What a module writes. */
export interface OperationDefinition<
  P extends TObject | undefined,
  Q extends TObject | undefined,
  B extends TSchema | undefined,
  H extends TObject | undefined,
  O extends TSchema,
  S extends StreamDeclaration | undefined = undefined,
> extends OperationFacts {
  readonly input: InputSchemas<P, Q, B, H, S>;
  readonly output: O;
  readonly handler: (
    context: OperationContext,
    input: OperationInput<P, Q, B, H, S>,
  ) => Promise<Static<O> | string | Reply> | Static<O> | string | Reply;
}

/** What surfaces read. */
export interface Operation extends OperationFacts {
  readonly input: InputSchemas;
  readonly handler: (context: OperationContext, input: DecodedInput) => Promise<unknown> | unknown;
}

/** Bodies of files and rows: for transports that can stream (HTTP), not for GraphQL, MCP and stored answers. */
export const isStreamed = ({ input, streams }: Pick<Operation, 'input' | 'streams'>): boolean =>
  input.stream !== undefined || streams !== undefined;

/**
 * Describes an operation; throws at start when a part is missing or contradicts itself.
 * See `modules/authentication/operations/session.ts` for a full example.
 */
export function defineOperation<
  O extends TSchema,
  P extends TObject | undefined = undefined,
  Q extends TObject | undefined = undefined,
  B extends TSchema | undefined = undefined,
  H extends TObject | undefined = undefined,
  S extends StreamDeclaration | undefined = undefined,
>(definition: OperationDefinition<P, Q, B, H, O, S>): Operation {
  const problem = contradiction(definition as unknown as Operation);
  if (problem) throw new Error(`Operation ${definition.id}: ${problem}`);
  return Object.freeze(definition) as unknown as Operation;
}

function contradiction(o: Operation): string | undefined {
  for (const part of [
    'id',
    'surface',
    'method',
    'path',
    'access',
    'limit',
    'input',
    'output',
    'summary',
    'handler',
  ] as const) {
    if (o[part] === undefined) return `"${part}" is missing`;
  }
  if (!o.path.startsWith('/')) return 'the path must start with /';
  const named = [...o.path.matchAll(/:(\w+)/g)].map((m) => m[1]);
  const declared = Object.keys(o.input.params?.properties ?? {});
  if (
    named.length !== declared.length ||
    named.some((n) => n === undefined || !declared.includes(n))
  ) {
    return `path parameters [${named}] and declared params [${declared}] differ`;
  }
  const adminOnly: readonly Access[] = ['admin', 'superAdmin', 'masterKey', 'adminSecondFactor'];
  if (o.surface === 'client' && adminOnly.includes(o.access))
    return 'admin access on the client surface';
  if (o.surface === 'admin' && !adminOnly.includes(o.access) && o.access !== 'public')
    return 'user access on the admin surface';
  return (
    methodContradiction(o) ??
    bodyContradiction(o) ??
    deadlineContradiction(o) ??
    undeclaredObject(o)
  );
}

function methodContradiction({ method, input, readOnly, changes }: Operation): string | undefined {
  if (method !== 'GET') return changes ? '`changes` is for GET' : undefined;
  if (input.body || input.stream) return 'GET takes no body';
  return readOnly === false ? 'a GET that changes something says `changes`' : undefined;
}

function bodyContradiction({ input, bodyTypes, bodyLimit }: Operation): string | undefined {
  if (input.stream && (input.stream.limit ?? bodyLimit) === undefined)
    return 'a streamed body needs its own bodyLimit';
  if (bodyTypes && !input.body) return 'bodyTypes without a body';
  if (bodyTypes?.includes('form') && !Type.IsObject(input.body))
    return 'a form needs an object as body';
  return undefined;
}

/** Milliseconds. A call that takes longer belongs into a job. */
const MAX_DEADLINE_MS = 3_600_000;

function deadlineContradiction({ deadlineMs }: Operation): string | undefined {
  const valid = deadlineMs === undefined || (deadlineMs > 0 && deadlineMs <= MAX_DEADLINE_MS);
  return valid ? undefined : `deadlineMs must be 1 to ${MAX_DEADLINE_MS}`;
}
