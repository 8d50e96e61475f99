/** The calls that one GraphQL request holds: one per root field, each through the pipeline like a request of its own. */
import type {
  ClientIdentity,
  Identity,
  PresentedApp,
  PresentedCredentials,
} from '../../kernel/identity.ts';
import type { CompiledOperation } from '../../kernel/operations/compile.ts';
import type { RequestHeaders, SelectedFields } from '../../kernel/operations/operation-input.ts';
import type { Call } from '../../kernel/pipeline/context.ts';

/** A field's operation called with what the request brought. */
export class NestedCall implements Call {
  readonly isPart = true;
  readonly compiled: CompiledOperation;
  readonly requestId: string;
  readonly address: string;
  readonly userAgent: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  /** Set when the field has read its selection. */
  requested: SelectedFields | undefined;
  requestedExactly = false;
  app: string | undefined;
  readonly #request: Call;

  /** `name`: of the field in the answer. Fields of one request with one Idempotency-Key are different calls. */
  constructor(request: Call, compiled: CompiledOperation, name: string) {
    this.compiled = compiled;
    this.requestId = request.requestId;
    this.address = request.address;
    this.userAgent = request.userAgent;
    this.idempotencyKey =
      request.idempotencyKey === undefined ? undefined : `${request.idempotencyKey}.${name}`;
    this.origin = request.origin;
    this.fetchSite = request.fetchSite;
    this.#request = request;
  }

  /** Throws 401 when the header is malformed; asked for only by operations that need a caller. */
  get credentials(): PresentedCredentials {
    return this.#request.credentials;
  }

  get presentedApp(): PresentedApp | undefined {
    return this.#request.presentedApp;
  }

  get headers(): RequestHeaders {
    return this.#request.headers ?? {};
  }

  onDisconnect(listener: () => void): void {
    this.#request.onDisconnect(listener);
  }
}

/** Believes or refuses the credential of a request once, however many fields ask. */
export function identityOfRequest(identity: Identity): Identity {
  const { client } = identity;
  return { admin: identity.admin, apps: identity.apps, client: client && oncePerRequest(client) };
}

function oncePerRequest(client: ClientIdentity): ClientIdentity {
  let outcome: (() => ReturnType<ClientIdentity['authenticate']>) | undefined;
  return {
    ...client,
    authenticate(credentials) {
      outcome ??= once(() => client.authenticate(credentials));
      return outcome();
    },
  };
}

function once<T>(work: () => T): () => T {
  try {
    const value = work();
    return () => value;
  } catch (error) {
    return () => {
      throw error;
    };
  }
}

/** One listener on the connection for all fields of a request. */
export function disconnectOfRequest(request: Pick<Call, 'onDisconnect'>): Call['onDisconnect'] {
  let listeners: (() => void)[] | undefined;
  return (listener) => {
    if (!listeners) {
      const all: (() => void)[] = [];
      listeners = all;
      request.onDisconnect(() => {
        for (const one of all) one();
      });
    }
    listeners.push(listener);
  };
}
