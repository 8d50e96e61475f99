/** What the kernel asks of permissions about records that somebody creates: whose they become, and who may. */
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import type {
  CachedOwner,
  CreationRule,
  Owner,
  PermissionEngine,
  RowPredicate,
} from '../../../kernel/permissions.ts';
import { rulesOf } from '../engine/record-rules.ts';
import { authorizationErrors } from '../errors.ts';
import { type ObjectRef, ownerRelation, parseObject } from '../model/grammar.ts';
import type { Model, Name } from '../model/model.ts';
import { takesOwner } from '../record-tuples.ts';
import { objectExists } from '../share-queries.ts';
import type { Checks } from './checks.ts';
import { isTrusted, subjectOf, userSubject } from './checks.ts';
import { createAction, creationCheck, creationOf, placingFields } from './creation.ts';
import type { Models } from './definitions/models.ts';
import type { RowPredicates } from './row-predicates.ts';

interface Dependencies {
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly models: Models;
  readonly checks: Checks;
  readonly rows: RowPredicates;
}

type RecordCreation = Pick<PermissionEngine, 'owner' | 'cachedOwner' | 'creation' | 'placement'>;

/** The part of the permission engine that records ask before and while they are created. */
export function createRecordCreation({
  database,
  schemas,
  models,
  checks,
  rows,
}: Dependencies): RecordCreation {
  /** Records that the caller may create as they are. */
  const creatableRows = (caller: Caller, schema: string): Promise<RowPredicate> =>
    rows.certain({ subject: userSubject(caller), action: createAction, type: schema });

  /** As operators name it. Only accounts act as users; teams and others may exist in relations alone. */
  const namedOwner = async (scope: string): Promise<ObjectRef> => {
    const owner = parseObject(scope, 'scope');
    const accounts = owner.type === 'User' ? schemas.get('User') : undefined;
    if (accounts && !(await objectExists(database, accounts, owner.id)))
      throw invalid('scope', 'unknown', 'there is no User with this id');
    return owner;
  };

  const ruleOf = creationRules(checks, creatableRows);

  return {
    async owner(caller, schema, scope) {
      const { model } = await models.engine();
      const gate = creationOf(model, schema) ? 'read' : 'edit';
      const { type, id } =
        isTrusted(caller) && scope
          ? await namedOwner(scope)
          : await subjectOf(checks, caller, gate, scope);
      requireTakesOwner(model, schema, type);
      return ownerOf(model, schema, { type, id });
    },
    async cachedOwner(caller, schema) {
      if (caller.kind !== 'user' || database.inTransaction()) return undefined;
      const { model } = await models.optimistic();
      const name = creationOf(model, schema);
      if (name && rulesOf(model, name).length > 0) return undefined;
      if (!takesOwner(model.get(schema), 'User')) return undefined;
      const owner = ownerOf(model, schema, { type: 'User', id: caller.userId });
      if (!owner.inRecord) return undefined;
      const tells = (model.get(schema)?.fields.size ?? 0) > 0;
      const rule = name && ruleOf(model, caller, { name, owner });
      return { owner, holds: sameDefinitions(model.revision), tells, ...(rule && { rule }) };
    },
    async creation(caller, schema, owner) {
      if (isTrusted(caller)) return undefined;
      const { model } = await models.engine();
      const name = creationOf(model, schema);
      if (!name) return undefined;
      return ruleOf(model, caller, { name, owner });
    },
    async placement(caller, schema) {
      const { model } = await models.engine();
      if (isTrusted(caller) || !creationOf(model, schema)) return undefined;
      return {
        fields: placingFields(model, schema),
        predicate: () => creatableRows(caller, schema),
      };
    },
  };
}

/** What `create`, the name, asks of records that will have the owner. */
const creationRules =
  (checks: Checks, rowsFor: (caller: Caller, schema: string) => Promise<RowPredicate>) =>
  (
    model: Model,
    caller: Caller,
    { name, owner }: { readonly name: Name; readonly owner: Owner },
  ): CreationRule => {
    const after = () => rowsFor(caller, name.type);
    // Values of a record are asked of the record itself.
    if (rulesOf(model, name).length > 0) return { after };
    const subject = userSubject(caller);
    return { before: creationCheck({ checks, model, subject, owner, name }), after };
  };

/** No definition has changed since a revision. The value stands in a sub-select, where the planner does not look at it. */
const sameDefinitions = (revision: number): CachedOwner['holds'] => ({
  value: revision,
  text: (place) =>
    `not exists (select 1 from penstock.resource_definition_versions v where v.revision > (select ${place}::bigint))`,
});

/** The owner, and whether the record itself can say it: only ids as they are written in columns. */
const ownerOf = (model: Model, schema: string, { type, id }: ObjectRef): Owner => ({
  type,
  id,
  ...(model.columnOf(schema, ownerRelation) &&
    isId(id) &&
    id === id.toLowerCase() && { inRecord: true }),
});

function requireTakesOwner(model: Model, schema: string, type: string): void {
  if (takesOwner(model.get(schema), type)) return;
  const message = `A ${type} cannot own records of ${schema}: its resource definition does not name ${type} under "${ownerRelation}"`;
  throw authorizationErrors.SCOPE_REFUSED({ message });
}
