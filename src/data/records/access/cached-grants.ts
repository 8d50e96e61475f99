/**
 * The permissions of a request, whose predicates are handed on to whoever uses them: they ask whether what these rest on
 * still holds.
 */
import { andThen } from '../../../kernel/maybe-promise.ts';
import type {
  PermissionEngine,
  PermissionPort,
  RowPredicate,
} from '../../../kernel/permissions.ts';

type Prepare = (predicate: RowPredicate) => RowPredicate;

/** The same dependencies, where predicates rest on what the node remembers. `prepare` is given each of them. */
export function withCachedGrants<D extends { readonly permissions: PermissionPort }>(
  dependencies: D,
  prepare: Prepare,
): D {
  const { engine } = dependencies.permissions;
  if (!engine?.cachedPredicate) return dependencies;
  return {
    ...dependencies,
    permissions: new PreparedPort(dependencies.permissions, prepare, 'cachedPredicate'),
  };
}

/** The same port, where `prepare` is given each predicate. They are certain. */
export const withPreparedGrants = (port: PermissionPort, prepare: Prepare): PermissionPort =>
  port.engine ? new PreparedPort(port, prepare, 'predicate') : port;

/** A port whose engine answers in one of two ways; made when somebody asks for it, which most reads do not. */
class PreparedPort implements PermissionPort {
  readonly tuples: PermissionPort['tuples'];
  readonly rules: PermissionPort['rules'];
  readonly uses: PermissionPort['uses'];
  readonly #port: PermissionPort;
  readonly #prepare: Prepare;
  readonly #way: 'cachedPredicate' | 'predicate';
  #engine: PermissionEngine | undefined;

  constructor(port: PermissionPort, prepare: Prepare, way: 'cachedPredicate' | 'predicate') {
    this.tuples = port.tuples;
    this.rules = port.rules;
    this.uses = port.uses;
    this.#port = port;
    this.#prepare = prepare;
    this.#way = way;
  }

  takesFields(schema: string): boolean {
    return this.#port.takesFields(schema);
  }

  get engine(): PermissionEngine | undefined {
    const { engine } = this.#port;
    const ask = engine?.[this.#way];
    if (!engine || !ask) return engine;
    if (!this.#engine) {
      const predicate: PermissionEngine['predicate'] = (...question) =>
        andThen(ask(...question), this.#prepare);
      // All else is that of the engine, which has far more than a read asks for.
      this.#engine = Object.assign(Object.create(engine) as PermissionEngine, { predicate });
    }
    return this.#engine;
  }
}
