/** Storing one definition, once it has been found to be sound. */
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import type { ActionUses } from '../../../../kernel/action-uses.ts';
import { type Caller, callerKey } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { Events } from '../../../../kernel/events/events.ts';
import { newId } from '../../../../kernel/ids.ts';
import { type Definition, invalidDefinition } from '../../model/definition.ts';
import { checkAgainst } from '../../model/reference-check.ts';
import {
  parsed,
  removeInvalidTuples,
  requireServesRecords,
  requireUnbroken,
  requireUsed,
  requireValidTuples,
  type Stored,
  withContents,
} from './change-check.ts';
import {
  type ChangeWarning,
  changeWarnings,
  slipWarnings,
  type WarningSearch,
} from './change-warnings.ts';
import { saveDefinition } from './queries.ts';
import { declaredRuleProblems, withFields } from './record-fields.ts';
import { requireRuleAuthority } from './rule-authority.ts';
import {
  type DefinitionContent,
  parsedDefinition,
  type StoredDefinition,
  sameContent,
} from './stored-definition.ts';

/** `processed`: in force now. `acknowledged`: it was in force already. `ignored`: an older or unversioned one. */
export type DefinitionStatus = 'processed' | 'acknowledged' | 'ignored';

export interface DefinitionOutcome {
  readonly status: DefinitionStatus;
  readonly resourceDefinition: StoredDefinition;
  /** Tuples that were deleted because they do not fit any more; only with `force`. */
  readonly removedRelations: number;
  /** What the change does to people. */
  readonly warnings: readonly ChangeWarning[];
  /** Where something else was sent than what is stored, and ignored: what to send instead. */
  readonly message?: string;
}

export interface DefinitionChange {
  readonly transaction: Transaction;
  readonly stored: Stored;
  /** What it will stand beside, when others change with it; `stored` unless set. */
  readonly beside?: Stored;
  readonly caller: Caller;
  readonly content: DefinitionContent;
  readonly version: number;
  readonly force: boolean;
  /** Fields of records that are not there yet are awaited. */
  readonly mayCome?: boolean;
}

interface Dependencies {
  readonly events: Events;
  /** True for a schema whose records are a matter of permission. */
  readonly hasRecords: (name: string) => boolean;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  /** What asks its callers for actions. */
  readonly uses: ActionUses;
}

/** Stores a type as it will be from now on. Throws 400, and 409 for what would break. */
export async function putDefinition(
  { events, hasRecords, schemas, uses }: Dependencies,
  change: DefinitionChange,
): Promise<DefinitionOutcome> {
  const { transaction, stored, beside = stored, caller, version, mayCome } = change;
  const content = withFields(change.content, schemas.get(change.content.name), mayCome);
  const definition = parsedDefinition(content);
  const others = parsed(beside).filter(({ name }) => name !== content.name);
  const schema = schemas.get(content.name);
  const problems = [
    ...checkAgainst(definition, others),
    ...(mayCome ? [] : declaredRuleProblems(definition, schema)),
  ];
  if (problems.length > 0) throw invalidDefinition(problems);
  if (!change.force && hasRecords(content.name)) requireServesRecords(definition);
  const before = stored.get(content.name);
  requireRuleAuthority(caller, schema, { content, before });
  // Those of an import were looked at before, with everything that comes with them.
  if (!change.force && !mayCome)
    requireUsed([...others, definition], parsed(stored), { uses: uses(), place: () => '' });
  const warnings = before
    ? await changeWarnings({ database: transaction, before, after: content, others, schemas })
    : [];
  const removedRelations = before
    ? await migrateLiveTuples(change, [...others, definition], parsed(stored))
    : 0;
  const id = before?.id ?? newId();
  await saveDefinition(transaction, { ...content, id, version }, callerKey(caller));
  const payload = { name: content.name, version };
  await events.emit(transaction, caller, {
    topic: `authorization:${before ? 'update' : 'create'}:resource`,
    payload,
  });
  const now = new Date().toISOString();
  const resourceDefinition = {
    ...content,
    id,
    version,
    createdAt: before?.createdAt ?? now,
    updatedAt: now,
  };
  return {
    ...{ status: 'processed', resourceDefinition, removedRelations },
    warnings: [...warnings, ...slipWarnings(definition, schemas)],
  };
}

/** Refuses a change that breaks something, or deletes what would be broken; answers how many tuples that were. */
async function migrateLiveTuples(
  change: DefinitionChange,
  next: readonly Definition[],
  before: readonly Definition[],
): Promise<number> {
  const { transaction, caller, content, force } = change;
  const search = {
    database: transaction,
    before: change.stored.get(content.name),
    definitions: next,
    type: content.name,
    actor: callerKey(caller),
  };
  if (force) return removeInvalidTuples(search);
  requireUnbroken(next, before, [content.name]);
  await requireValidTuples(search);
  return 0;
}

/** What changes to these would do to people, by name, and slips in their rules. */
export async function warningsOf(
  { database, schemas }: Pick<WarningSearch, 'database' | 'schemas'>,
  stored: Stored,
  next: readonly DefinitionContent[],
): Promise<ReadonlyMap<string, readonly ChangeWarning[]>> {
  const others = parsed(withContents(stored, next));
  const found = new Map<string, readonly ChangeWarning[]>();
  for (const after of next) {
    const before = stored.get(after.name);
    if (before && sameContent(before, after)) continue;
    const change = before && { database, before, after, others, schemas };
    found.set(after.name, [
      ...(change ? await changeWarnings(change) : []),
      ...slipWarnings(parsedDefinition(after), schemas),
    ]);
  }
  return found;
}
