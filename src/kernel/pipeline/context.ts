/** One call of one operation, as a transport presents it and as the handler sees it. */

import type { Caller } from '../caller.ts';
import { errors } from '../errors.ts';
import {
  anonymousApp,
  type Identity,
  noApp,
  type PresentedApp,
  type PresentedCredentials,
} from '../identity.ts';
import type { CompiledOperation } from '../operations/compile.ts';
import type { Operation } from '../operations/operation.ts';
import type {
  AuditFacts,
  OperationContext,
  RequestHeaders,
  SelectedFields,
} from '../operations/operation-input.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What a transport knows before anything is believed. */
export interface Call {
  readonly compiled: CompiledOperation;
  readonly credentials: PresentedCredentials;
  readonly requestId: string;
  /** The client's address, behind trusted proxies the real one. */
  readonly address: string;
  readonly userAgent: string | undefined;
  /** Headers as they came, where the transport has any; names in lower case. */
  readonly headers?: RequestHeaders;
  /** The part after `?`, where the transport has one. */
  readonly rawQuery?: string | undefined;
  /** `Idempotency-Key` as sent. */
  readonly idempotencyKey: string | undefined;
  /** `Origin` as sent. */
  readonly origin?: string | undefined;
  /** `Sec-Fetch-Site` as sent. */
  readonly fetchSite?: string | undefined;
  /** Which app the request says that it comes from. */
  readonly presentedApp?: PresentedApp;
  /** The app, once it was believed; nothing while apps are not told apart. */
  app?: string | undefined;
  /** Its request holds several calls, which may run beside it (GraphQL, MCP). */
  readonly isPart?: boolean;
  /** What of the answer will be looked at; nothing: all. */
  readonly requested?: SelectedFields | undefined;
  /** `requested` names all that the answer is to have, each member once. */
  readonly requestedExactly?: boolean | undefined;
  /** Runs `listener` if the client goes away before the answer is out. */
  onDisconnect(listener: () => void): void;
}

interface ContextParts {
  readonly log: Logger;
  readonly deadlineAt: number;
  readonly identity: Identity;
}

/**
 * The context of a handler. Signal and log are made when they are first asked
 * for: most handlers use neither, and each costs more than the rest of the
 * pipeline together.
 */
export class CallContext implements OperationContext {
  readonly caller: Caller;
  readonly requestId: string;
  readonly address: string;
  readonly bearer: string | undefined;
  readonly #call: Call;
  readonly #parentLog: Logger;
  readonly #identity: Identity;
  #controller: AbortController | undefined;
  #log: Logger | undefined;
  #expiry: Error | undefined;
  #auditFacts: AuditFacts | undefined;

  /** When the call is given up, on the clock of `performance.now()`. */
  readonly deadlineAt: number;

  constructor(call: Call, caller: Caller, { log, deadlineAt, identity }: ContextParts) {
    this.#identity = identity;
    this.deadlineAt = deadlineAt;
    this.caller = caller;
    this.requestId = call.requestId;
    this.address = call.address;
    this.bearer = consumesBearer(call.compiled.operation.access)
      ? call.credentials.bearer
      : undefined;
    this.#call = call;
    this.#parentLog = log;
  }

  get userAgent(): string | undefined {
    return this.#call.userAgent;
  }

  get clientId(): string {
    return appOf(this.#call);
  }

  get callerNow(): () => Caller | Promise<Caller> {
    return () => {
      const app = admitApp(this.#identity, this.#call);
      const now = () => callerNow(this.#identity, this.#call, this.caller);
      return app instanceof Promise ? app.then(now) : now();
    };
  }

  get requested(): SelectedFields | undefined {
    return this.#call.requested;
  }

  get requestedExactly(): boolean | undefined {
    return this.#call.requestedExactly;
  }

  get cookies(): Readonly<Record<string, string>> {
    return this.#call.credentials.cookies;
  }

  get headers(): RequestHeaders {
    return this.#call.headers ?? {};
  }

  get rawQuery(): string {
    return this.#call.rawQuery ?? '';
  }

  get origin(): string | undefined {
    return this.#call.origin;
  }

  get fetchSite(): string | undefined {
    return this.#call.fetchSite;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      const controller = new AbortController();
      this.#controller = controller;
      if (this.#expiry) controller.abort(this.#expiry);
      else this.#call.onDisconnect(() => controller.abort(new Error('The client went away')));
    }
    return this.#controller.signal;
  }

  get log(): Logger {
    this.#log ??= this.#parentLog.child({
      requestId: this.requestId,
      operation: this.#call.compiled.operation.id,
      ...impersonation(this.caller),
    });
    return this.#log;
  }

  audited(facts: AuditFacts): void {
    this.#auditFacts = { ...this.#auditFacts, ...facts };
  }

  get auditFacts(): AuditFacts | undefined {
    return this.#auditFacts;
  }

  /** The deadline has passed and the caller was told so. */
  get expired(): boolean {
    return this.#expiry !== undefined;
  }

  expire(reason: Error): void {
    this.#expiry ??= reason;
    this.#controller?.abort(this.#expiry);
  }
}

/** An operator who acts as a user is named in every line. */
const impersonation = (caller: Caller): { readonly impersonatedBy?: string } =>
  caller.kind === 'user' && caller.impersonatedBy !== undefined
    ? { impersonatedBy: caller.impersonatedBy }
    : {};

const consumesBearer = (access: string): boolean =>
  access === 'refreshToken' || access === 'adminSecondFactor';

/* The app behind a call: asked for once, before anybody looks at who is signed in. */

/** Notes the app in the call. Throws 401. Without a promise when there is nothing to wait for. */
export function admitApp({ apps }: Identity, call: Call): void | Promise<void> {
  if (!apps || !needsApp(call.compiled.operation)) return undefined;
  const app = apps.admit(call.presentedApp ?? noApp);
  if (app instanceof Promise) {
    return app.then((known) => {
      call.app = known;
    });
  }
  call.app = app;
  return undefined;
}

/** Callbacks of others come from wherever they come from; a few operations say themselves that anybody may ask. */
export function needsApp({ surface, path, anyApp }: Operation): boolean {
  return surface === 'client' && anyApp !== true && !path.startsWith('/hook/');
}

/** Throws 401 for a token that was given to another app than the one that presents it. */
export function requireOwnToken(caller: Caller, call: Call): void {
  if (call.app === undefined || caller.kind !== 'user' || caller.clientId === call.app) return;
  throw errors.UNAUTHORIZED({ message: 'This token belongs to another app: log in with this one' });
}

/** Who was `known` when the call began, as they are now. Throws 401 or 403. */
function callerNow(identity: Identity, call: Call, known: Caller): Caller | Promise<Caller> {
  const port = known.kind === 'admin' ? identity.admin : identity.client;
  if (known.kind === 'anonymous' || !port) return known;
  const accepted = (caller: Caller): Caller => {
    requireOwnToken(caller, call);
    return caller;
  };
  const caller: Caller | Promise<Caller> = port.authenticate(call.credentials);
  return caller instanceof Promise ? caller.then(accepted) : accepted(caller);
}

const appOf = (call: Call): string => call.app ?? anonymousApp;
