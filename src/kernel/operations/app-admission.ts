/** The app behind a call: asked for once, before anybody looks at who is signed in. */
import { anonymousApp, noApp } from '../apps.ts';
import type { Caller } from '../caller.ts';
import { errors } from '../errors.ts';
import type { Identity } from '../identity.ts';
import type { Operation } from '../operation.ts';
import type { Call } from './context.ts';

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
function needsApp({ surface, path, anyApp }: Operation): boolean {
  return surface === 'client' && anyApp !== true && !path.startsWith('/hook/');
}

/** Throws 401 for a token that was given to another app than the one that presents it. */
export function requireOwnToken(caller: Caller, call: Call): void {
  if (call.app === undefined || caller.kind !== 'user' || caller.clientId === call.app) return;
  throw errors.UNAUTHORIZED({ message: 'This token belongs to another app: log in with this one' });
}

export const appOf = (call: Call): string => call.app ?? anonymousApp;
