/** The headers that every answer of a surface has. */
import type { Exchange } from './exchange.ts';
import { type Cors, createCors, securityHeaders } from './headers.ts';
import type { SurfaceOptionsSource } from './options.ts';
import type { Draining } from './server.ts';

export interface SurfaceHeaders {
  readonly cors: Cors;
  /** Security and CORS headers for a request from `origin`. */
  of(origin: string | undefined): readonly string[];
}

/** Headers are composed once per configuration and origin. */
export function createHeaders(
  source: SurfaceOptionsSource,
  draining: Draining,
): () => SurfaceHeaders {
  const compose = (): SurfaceHeaders => {
    const { cors: requested, hsts: value } = source.current();
    const cors = createCors(requested);
    const hsts = value === undefined ? [] : ['strict-transport-security', value];
    const composed = new Map<readonly string[], readonly string[]>();
    return {
      cors,
      of(origin) {
        const own = cors.headers(origin);
        let all = composed.get(own);
        if (!all) {
          all = [
            ...securityHeaders,
            ...hsts,
            ...own,
            ...(draining.active ? ['connection', 'close'] : []),
          ];
          composed.set(own, all);
        }
        return all;
      },
    };
  };
  let current = compose();
  const again = (): void => {
    current = compose();
  };
  source.onChange(again);
  draining.onBegin(again);
  return () => current;
}

/** For operators: milliseconds until the answer began, and the statements that it took. */
export function timingOf({ startedAt, account }: Exchange): string {
  const statements = account?.spent('statements');
  const total = `total;dur=${(performance.now() - startedAt).toFixed(1)}`;
  return statements === undefined ? total : `${total}, db;desc="${statements} statements"`;
}
