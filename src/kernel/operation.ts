/**
 * The one description of an operation. REST routes, OpenAPI, GraphQL, MCP tools,
 * the typed client and the docs all come from it; nothing about an operation is
 * written anywhere else.
 */
import Type, { type Static, type TObject, type TSchema } from 'typebox';
import type { Caller } from './caller.ts';
import type { ErrorFactory } from './errors.ts';
import type { Logger } from './telemetry/logger.ts';

export type SurfaceName = 'client' | 'admin';
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/**
 * Who may call. The surface turns the presented credential into a caller before
 * the handler runs, and refuses with 401 or 403.
 *
 * - `public`: anybody; credentials are not looked at
 * - `optionalUser`: nobody, or a user; a presented token that is not valid is 401
 * - `user`: a signed-in user; `partialUser`: also one who still owes a second factor
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

/** How often one caller may do this. */
export interface RateLimit {
  readonly requests: number;
  readonly seconds: number;
  /**
   * Body field that names the account or recipient the request is about (`email`).
   * Then `requests` counts per account and address, and ten times that per address alone.
   */
  readonly account?: string;
}

/** The limit of everything that guesses or sends nothing: set by configuration, see docs/reference. */
export const standardLimit = 'standard';
export type Limit = typeof standardLimit | RateLimit;

/** Output of operations whose handler answers text: `{"result": "..."}` on the wire. */
export const TextResult = Type.Object({ result: Type.String() });

/** What a handler knows about the request beside its input. */
export interface OperationContext {
  readonly caller: Caller;
  readonly requestId: string;
  /** The client's address, behind trusted proxies the real one. */
  readonly address: string;
  readonly userAgent: string | undefined;
  /** The bearer as presented; only for operations that consume it. Never log it. */
  readonly bearer: string | undefined;
  /** Aborted when the client goes away or the deadline passes. */
  readonly signal: AbortSignal;
  readonly log: Logger;
}

/** An answer that is more than its JSON body. Records never steer the response; only handlers do. */
export class Reply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Body that is JSON text already, rendered by PostgreSQL and passed through. */
  readonly json: string | undefined;
  /** Body of another content type; `headers` must name it. */
  readonly text: string | undefined;

  private constructor(status: number, headers: Readonly<Record<string, string>>, body: { json?: string; text?: string }) {
    this.status = status;
    this.headers = headers;
    this.json = body.json;
    this.text = body.text;
  }

  /** JSON text as it is. */
  static json(json: string, headers: Readonly<Record<string, string>> = {}, status = 200): Reply {
    return new Reply(status, headers, { json });
  }

  /** Text of another content type, such as HTML or the legacy health line. */
  static text(text: string, contentType: string, status = 200, headers: Readonly<Record<string, string>> = {}): Reply {
    return new Reply(status, { ...headers, 'content-type': contentType }, { text });
  }

  static redirect(location: string): Reply {
    return new Reply(302, { location }, {});
  }
}

type Optional<S extends TSchema | undefined> = S extends TSchema ? Static<S> : Record<string, never>;

/** What the handler gets: decoded, validated, and with undeclared keys removed. */
export interface OperationInput<
  P extends TObject | undefined,
  Q extends TObject | undefined,
  B extends TSchema | undefined,
  H extends TObject | undefined,
> {
  readonly params: Optional<P>;
  readonly query: Optional<Q>;
  readonly body: Optional<B>;
  readonly headers: Optional<H>;
}

/** Schemas of the four places that input comes from. Header names are lower case. */
export interface InputSchemas<
  P extends TObject | undefined = TObject | undefined,
  Q extends TObject | undefined = TObject | undefined,
  B extends TSchema | undefined = TSchema | undefined,
  H extends TObject | undefined = TObject | undefined,
> {
  readonly params?: P;
  readonly query?: Q;
  readonly body?: B;
  readonly headers?: H;
}

interface OperationFacts {
  /** Stable dotted name: `<module>.<subject>.<verb>`. */
  readonly id: string;
  readonly surface: SurfaceName;
  readonly method: Method;
  /** Route template with `:name` parameters. */
  readonly path: string;
  readonly access: Access;
  readonly limit: Limit;
  /** Shape of the 200 answer. A handler may return text where this is `TextResult`. */
  readonly output: TSchema;
  /** Catalogue errors beyond those that follow from access, input and limit. */
  readonly errors?: readonly ErrorFactory[];
  readonly summary: string;
  readonly description?: string;
  /** Bytes; 1 MiB unless set. Checked before the body is read. */
  readonly bodyLimit?: number;
  /** Unknown input keys: dropped unless this is set, then 400. */
  readonly strict?: boolean;
  /** An MCP tool unless false. */
  readonly mcp?: boolean;
  /** A GraphQL field unless false. */
  readonly graphql?: boolean;
  /** False on operations whose answer is a secret: it must not be stored for replay. */
  readonly idempotency?: boolean;
  /** A route of the 0.16 line. */
  readonly legacy?: boolean;
  readonly deprecated?: boolean;
  /** Admin operations that work before the first password was changed; all others answer 403 until then. */
  readonly beforePasswordChange?: boolean;
  /** Other spellings of the same route that existing clients use. Same checks, never MCP or GraphQL. */
  readonly aliases?: readonly { readonly method: Method; readonly path: string }[];
  /** Answers with the output's shape but another status, and when (`GET /ready`: 503 while not ready). */
  readonly otherStatuses?: Readonly<Record<number, string>>;
  /** When the operation answers plain text instead of its output, in words (the health routes, for old probes). */
  readonly textAnswer?: string;
}

/** What a module writes. */
export interface OperationDefinition<
  P extends TObject | undefined,
  Q extends TObject | undefined,
  B extends TSchema | undefined,
  H extends TObject | undefined,
  O extends TSchema,
> extends OperationFacts {
  readonly input: InputSchemas<P, Q, B, H>;
  readonly output: O;
  readonly handler: (
    context: OperationContext,
    input: OperationInput<P, Q, B, H>,
  ) => Promise<Static<O> | string | Reply> | Static<O> | string | Reply;
}

/** What surfaces read. */
export interface Operation extends OperationFacts {
  readonly input: InputSchemas;
  readonly handler: (context: OperationContext, input: DecodedInput) => Promise<unknown> | unknown;
}

/** Decoded input of an operation whose types are not known here. */
export interface DecodedInput {
  readonly params: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly body: unknown;
  readonly headers: Record<string, unknown>;
}

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
>(definition: OperationDefinition<P, Q, B, H, O>): Operation {
  const problem = contradiction(definition as unknown as Operation);
  if (problem) throw new Error(`Operation ${definition.id}: ${problem}`);
  return Object.freeze(definition) as unknown as Operation;
}

function contradiction(o: Operation): string | undefined {
  for (const part of ['id', 'surface', 'method', 'path', 'access', 'limit', 'input', 'output', 'summary', 'handler'] as const) {
    if (o[part] === undefined) return `"${part}" is missing`;
  }
  if (!o.path.startsWith('/')) return 'the path must start with /';
  if (o.method === 'GET' && o.input.body) return 'GET takes no body';
  const named = [...o.path.matchAll(/:(\w+)/g)].map((m) => m[1]);
  const declared = Object.keys(o.input.params?.properties ?? {});
  if (named.length !== declared.length || named.some((n) => n === undefined || !declared.includes(n))) {
    return `path parameters [${named}] and declared params [${declared}] differ`;
  }
  const adminOnly: readonly Access[] = ['admin', 'superAdmin', 'masterKey', 'adminSecondFactor'];
  if (o.surface === 'client' && adminOnly.includes(o.access)) return 'admin access on the client surface';
  if (o.surface === 'admin' && !adminOnly.includes(o.access) && o.access !== 'public') return 'user access on the admin surface';
  return undefined;
}
