/** The calls that one GraphQL request holds: one per root field, each through the pipeline like a request of its own. */
import type { UserCaller } from '../../kernel/caller.ts';
import type {
  ClientIdentity,
  CookieTokens,
  Identity,
  PresentedApp,
  PresentedCredentials,
} from '../../kernel/identity.ts';
import type { MaybePromise } from '../../kernel/maybe-promise.ts';
import type { CompiledOperation } from '../../kernel/operations/compile.ts';
import type { RequestHeaders, SelectedFields } from '../../kernel/operations/operation-input.ts';
import type { Call } from '../../kernel/pipeline/context.ts';
import { keyOfPart } from '../../kernel/pipeline/idempotency/idempotency.ts';

/** A field's operation called with what the request brought. */
export class NestedCall implements Call {
  /** False: the request holds no other. */
  isPart = true;
  readonly compiled: CompiledOperation;
  readonly requestId: string;
  readonly address: string;
  /** Set when the field has read its selection. */
  requested: SelectedFields | undefined;
  requestedExactly = false;
  app: string | undefined;
  readonly #request: Call;
  readonly #name: string;

  /** `name`: of the field in the answers. Fields of one request with one Idempotency-Key are different calls. */
  constructor(request: Call, compiled: CompiledOperation, name: string) {
    this.compiled = compiled;
    this.requestId = request.requestId;
    this.address = request.address;
    this.#request = request;
    this.#name = name;
  }

  /** Throws 401 when the header is malformed; asked for only by operations that need a caller. */
  get credentials(): PresentedCredentials {
    return this.#request.credentials;
  }

  get presentedApp(): PresentedApp | undefined {
    return this.#request.presentedApp;
  }

  get userAgent(): string | undefined {
    return this.#request.userAgent;
  }

  get idempotencyKey(): string | undefined {
    const key = this.#request.idempotencyKey;
    return key === undefined ? undefined : keyOfPart(key, this.#name);
  }

  get origin(): string | undefined {
    return this.#request.origin;
  }

  get fetchSite(): string | undefined {
    return this.#request.fetchSite;
  }

  get headers(): RequestHeaders {
    return this.#request.headers ?? {};
  }

  onDisconnect(listener: () => void): void {
    this.#request.onDisconnect(listener);
  }
}

/**
 * Refuses the credential of a request once, however many fields ask, and believes it for each of them anew: one may sign
 * out, or delete, who the next one would act as.
 */
export class IdentityOfRequest implements Identity {
  readonly admin: Identity['admin'];
  readonly apps: Identity['apps'];
  readonly client: ClientIdentity | undefined;
  readonly ends: Identity['ends'];

  constructor({ admin, apps, client, ends }: Identity) {
    this.admin = admin;
    this.apps = apps;
    this.ends = ends;
    this.client = client && new ClientOfRequest(client);
  }
}

class ClientOfRequest implements ClientIdentity {
  readonly cookieTokens?: CookieTokens;
  readonly #client: ClientIdentity;
  /** Of fields that ask at the same time. */
  #asking: Promise<UserCaller> | undefined;
  #refusal: { readonly error: unknown } | undefined;

  constructor(client: ClientIdentity) {
    this.#client = client;
    if (client.cookieTokens) this.cookieTokens = client.cookieTokens;
  }

  authenticate(credentials: PresentedCredentials): MaybePromise<UserCaller> {
    if (this.#refusal) throw this.#refusal.error;
    if (this.#asking) return this.#asking;
    try {
      const asked = this.#client.authenticate(credentials);
      return asked instanceof Promise ? this.#ask(asked) : asked;
    } catch (error) {
      this.#refusal = { error };
      throw error;
    }
  }

  async #ask(asked: Promise<UserCaller>): Promise<UserCaller> {
    this.#asking = asked;
    try {
      return await asked;
    } catch (error) {
      this.#refusal = { error };
      throw error;
    } finally {
      this.#asking = undefined;
    }
  }
}
