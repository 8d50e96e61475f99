/** Paths by which a schema lets clients filter (`cms.query.fields`), and that no client can use. */
import { isOffered } from '../../../data/records/access/operation-access.ts';
import { PathError, resolveTarget } from '../../../data/records/filter/target.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { publicSchema } from '../../../data/schema/public-view.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';

type Schemas = Pick<SchemaRegistry, 'get' | 'publicViews'>;

/** Why, for each of them. A way to a schema that is not there yet is none of these. */
export const uselessPaths = (schemas: Schemas, schema: CompiledSchema): readonly string[] =>
  (schema.modelOptions.conduit.cms.query?.fields ?? []).flatMap((path) => {
    const reason = reasonOf(schemas, schema, path);
    return reason === undefined ? [] : [`Clients cannot filter by "${path}": ${reason}`];
  });

function reasonOf(schemas: Schemas, schema: CompiledSchema, path: string): string | undefined {
  if (schema.problem !== undefined) return undefined;
  let isMissing = false;
  const forUsers = (name: string): CompiledSchema | undefined => {
    const target = schemas.get(name);
    isMissing ||= target === undefined;
    const view = target && !isOffered(target, 'read') ? schemas.publicViews.get(name) : undefined;
    return target && view ? publicSchema(target, view) : target;
  };
  try {
    const { hops } = resolveTarget(schema, path, { schema: forUsers, hidden: false });
    const closed = hops.find(({ target }) => !target.isPublicView && !isOffered(target, 'read'));
    return closed && `it leads to records of ${closed.target.name}, which no client may read`;
  } catch (error) {
    if (!(error instanceof PathError)) throw error;
    return isMissing ? undefined : error.message;
  }
}
