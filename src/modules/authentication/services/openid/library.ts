/**
 * The library is loaded when somebody first needs it: it is 180 files of its own and a web framework, a sixth of
 * what a start loads, and most platforms are no provider for other apps.
 */
import { createRequire } from 'node:module';

type OpenidLibrary = Pick<typeof import('oidc-provider'), 'Provider' | 'errors'>;

const load = createRequire(import.meta.url);

/** `oidc-provider`; from the second time on this costs a look into a table. */
export const openidLibrary = (): OpenidLibrary => load('oidc-provider') as OpenidLibrary;
