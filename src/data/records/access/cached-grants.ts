/** The permissions of a request by what the node remembers of them. Whoever uses them asks whether that still holds. */
import { andThen } from '../../../kernel/maybe-promise.ts';
import type {
  PermissionEngine,
  PermissionPort,
  RowPredicate,
} from '../../../kernel/permissions.ts';

/** The same dependencies, where predicates rest on what the node remembers. `prepare` is given each of them. */
export function withCachedGrants<D extends { readonly permissions: PermissionPort }>(
  dependencies: D,
  prepare: (predicate: RowPredicate) => RowPredicate,
): D {
  const { engine } = dependencies.permissions;
  if (!engine?.cachedPredicate) return dependencies;
  return { ...dependencies, permissions: new CachedGrantsPort(dependencies.permissions, prepare) };
}

/** A port whose engine answers with what the node remembers; made when somebody asks for it, which most reads do not. */
class CachedGrantsPort implements PermissionPort {
  readonly tuples: PermissionPort['tuples'];
  readonly rules: PermissionPort['rules'];
  readonly uses: PermissionPort['uses'];
  readonly #port: PermissionPort;
  readonly #prepare: (predicate: RowPredicate) => RowPredicate;
  #engine: PermissionEngine | undefined;

  constructor(port: PermissionPort, prepare: (predicate: RowPredicate) => RowPredicate) {
    this.tuples = port.tuples;
    this.rules = port.rules;
    this.uses = port.uses;
    this.#port = port;
    this.#prepare = prepare;
  }

  takesFields(schema: string): boolean {
    return this.#port.takesFields(schema);
  }

  get engine(): PermissionEngine | undefined {
    const { engine } = this.#port;
    const cachedPredicate = engine?.cachedPredicate;
    if (!engine || !cachedPredicate) return engine;
    if (!this.#engine) {
      const predicate: PermissionEngine['predicate'] = (...question) =>
        andThen(cachedPredicate(...question), this.#prepare);
      // All else is that of the engine, which has far more than a read asks for.
      this.#engine = Object.assign(Object.create(engine) as PermissionEngine, { predicate });
    }
    return this.#engine;
  }
}
