/** The first step of a call: credential -> caller, then the limits that need no body. */
import type { ActionLog } from '../audit/admin-actions.ts';
import { anonymous, type Caller } from '../caller.ts';
import type { Identity } from '../identity.ts';
import { authenticate, requireRights } from './admission.ts';
import { admitApp, requireOwnToken } from './app-admission.ts';
import type { Call } from './context.ts';
import type { OperationLimiter } from './limits.ts';

/** How a call is admitted that shares its request with others (GraphQL). */
export interface SharedRequest {
  /** Remembers what the credential of the request was worth. */
  readonly identity: Identity;
  /** The request paid the standard budget for this call. */
  readonly prepaid: boolean;
}

interface AdmitParts {
  readonly identity: Identity;
  readonly limiter: OperationLimiter;
  readonly actions: Pick<ActionLog, 'refused'>;
}

/** Throws or rejects with 401, 403, 429 or 503. */
type Admit = (call: Call, shared?: SharedRequest) => Caller | Promise<Caller>;

export function createAdmit({ identity, limiter, actions }: AdmitParts): Admit {
  const permitted = (call: Call, caller: Caller, prepaid = false): Caller | Promise<Caller> => {
    try {
      requireRights(caller, call.compiled.operation);
    } catch (error) {
      return refused(call, error, caller);
    }
    const done = limiter.admit(call.compiled.operation, caller, call.address, prepaid);
    return done instanceof Promise ? done.then(() => caller) : caller;
  };

  /** A refused credential costs the address, so that guessing is limited too. */
  const refused = async (call: Call, error: unknown, caller: Caller = anonymous): Promise<never> => {
    await limiter.admitAddress(call.address, call.compiled.operation.surface);
    await actions.refused(call, caller, error);
    throw error;
  };

  return (call, shared) => {
    let caller: Caller | Promise<Caller>;
    try {
      caller = knownCaller(shared?.identity ?? identity, call);
    } catch (error) {
      return refused(call, error);
    }
    if (!(caller instanceof Promise)) return permitted(call, caller, shared?.prepaid);
    return caller.then(
      (known) => permitted(call, known, shared?.prepaid),
      (error: unknown) => refused(call, error),
    );
  };
}

/** First the app, then who is signed in with it. Throws 401, 403 or 503. */
function knownCaller(identity: Identity, call: Call): Caller | Promise<Caller> {
  const app = admitApp(identity, call);
  return app instanceof Promise ? app.then(() => callerOfApp(identity, call)) : callerOfApp(identity, call);
}

function callerOfApp(identity: Identity, call: Call): Caller | Promise<Caller> {
  const caller = authenticate(identity, call);
  if (caller instanceof Promise) return caller.then((known) => ofThisApp(known, call));
  return ofThisApp(caller, call);
}

function ofThisApp(caller: Caller, call: Call): Caller {
  requireOwnToken(caller, call);
  return caller;
}
