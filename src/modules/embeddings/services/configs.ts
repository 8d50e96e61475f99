/** Configurations: what of which schema is searched. */

import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { type AuthorityObject, requireAuthority, schemaObject } from '../../../kernel/authority.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { embeddingErrors } from '../errors.ts';
import { noProvider, openaiProvider } from '../model.ts';
import {
  allConfigs,
  type ConfigRow,
  changeConfig,
  type GenerationRow,
  insertConfig,
  insertGeneration,
  type Recipe,
  removeConfig,
} from '../queries/configs.ts';
import { beginPosition } from '../queries/pending.ts';
import { cancelRuns, cancelRunsInto } from '../queries/runs.ts';
import type { Backfills } from './backfills.ts';
import { type EmbeddingParts, purgeJobName } from './embedding-parts.ts';
import {
  type ConfigInput,
  isSameRecipe,
  recipeOf,
  requireEligible,
  requireSources,
} from './recipe.ts';
import { filesSearched } from './texts.ts';

interface Saved {
  readonly config: ConfigRow;
  readonly warnings: readonly string[];
}

export interface Configs {
  list(schemaName?: string): Promise<readonly ConfigRow[]>;
  /** Throws 404. */
  find(id: string): Promise<ConfigRow>;
  /** Makes a configuration, or changes that of the same target. */
  save(caller: Caller, input: ConfigInput): Promise<Saved>;
  /** Throws what `save` would refuse it for. */
  check(caller: Caller, input: ConfigInput): void;
  /** What whoever makes, changes or deletes such a configuration must be allowed to touch. */
  touchedBy(input: Pick<ConfigInput, 'schemaName' | 'sourceFields'>): readonly AuthorityObject[];
  /** Its vectors go in the background, `now` or with those of others. Throws 403 and 404. */
  remove(caller: Caller, id: string, now?: boolean): Promise<ConfigRow>;
}

interface ConfigsParts extends EmbeddingParts {
  readonly backfills: Backfills;
  /** There is something to do now. */
  readonly wake: () => void;
}

export function createConfigs(parts: ConfigsParts): Configs {
  const { database } = parts;
  const list = async (schemaName?: string): Promise<readonly ConfigRow[]> => {
    const all = await allConfigs(database);
    return schemaName === undefined ? all : all.filter((one) => one.schemaName === schemaName);
  };
  const find = async (id: string): Promise<ConfigRow> => {
    const found = (await allConfigs(database)).find((one) => one.id === id);
    if (!found) throw embeddingErrors.CONFIG_NOT_FOUND();
    return found;
  };
  return {
    list,
    find,
    async save(caller, input) {
      const schema = checkedSchema(parts, caller, input);
      const recipe = recipeOf(parts.config(), input);
      const position = await parts.events.position();
      const there = await database.transaction(async (transaction) => {
        await beginPosition(transaction, position);
        const known = (await list(schema.name)).find(
          (one) => one.targetField === input.targetField,
        );
        if (known) return change(transaction, known, input, recipe);
        return create(transaction, input, recipe);
      });
      const started = await startBackfill(parts, there, input);
      parts.wake();
      return { config: await find(there.id), warnings: warningsOf(recipe, started, there) };
    },
    check(caller, input) {
      checkedSchema(parts, caller, input);
      recipeOf(parts.config(), input);
    },
    touchedBy: (input) => touchedBy(parts, input),
    async remove(caller, id, now = false) {
      const found = await find(id);
      const { sourceFields } = found.current;
      requireAuthority(caller, ...touchedBy(parts, { ...found, sourceFields }));
      await database.transaction(async (transaction) => {
        if (!(await removeConfig(transaction, id))) throw embeddingErrors.CONFIG_NOT_FOUND();
        await cancelRuns(transaction, id);
        if (now) await parts.jobs.enqueue(purgeJobName, {}, { transaction });
      });
      parts.wake();
      return found;
    },
  };
}

function touchedBy(
  { schemas }: Pick<EmbeddingParts, 'schemas'>,
  { schemaName, sourceFields }: Pick<ConfigInput, 'schemaName' | 'sourceFields'>,
): readonly AuthorityObject[] {
  const schema = schemas.get(schemaName);
  return [...schemaObject(schema), ...filesSearched(schema, sourceFields)];
}

/** Throws 400, 403 and 404. */
function checkedSchema(parts: EmbeddingParts, caller: Caller, input: ConfigInput): CompiledSchema {
  const schema = parts.schemas.get(input.schemaName);
  if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
  requireAuthority(caller, ...touchedBy(parts, input));
  requireEligible(schema);
  if (schema.tree.fields.has(input.targetField))
    throw invalid('targetField', 'taken', `${schema.name} has a field of this name`);
  const { sourceFieldAllowlist } = parts.config().security;
  const allowed = new Set([...sourceFieldAllowlist, ...(input.sourceFieldAllowlist ?? [])]);
  requireSources(schema, input.sourceFields, allowed);
  if (schema.mapping && schema.key.length === 0)
    throw invalid('schemaName', 'key', 'needs a key, which this table does not have');
  return schema;
}

/** A configuration as it was made or changed, and the generation that has to be filled. */
interface Stored {
  readonly id: string;
  readonly schemaName: string;
  readonly fill: string | undefined;
}

async function create(
  transaction: Transaction,
  input: ConfigInput,
  recipe: Recipe,
): Promise<Stored> {
  const [id, generationId] = [newId(), newId()];
  await insertGeneration(transaction, generationId, id, recipe);
  const { schemaName, targetField, enabled = true } = input;
  const config = { id, schemaName, targetField, enabled, generationId };
  if (!(await insertConfig(transaction, config))) throw embeddingErrors.CONFIG_EXISTS();
  return { id, schemaName, fill: enabled ? generationId : undefined };
}

/** Another recipe makes a generation beside the old one; the old recipe again gives that up. */
async function change(
  transaction: Transaction,
  known: ConfigRow,
  input: ConfigInput,
  recipe: Recipe,
): Promise<Stored> {
  const { id, schemaName, current } = known;
  const enabled = input.enabled ?? known.enabled;
  const isBack = enabled && !known.enabled;
  const next = await nextOf(transaction, known, recipe);
  await changeConfig(transaction, id, { enabled, nextId: next?.id ?? null });
  const isNew = next !== undefined && next.id !== known.next?.id;
  // What was made beside it is wanted no more.
  if (known.next && known.next.id !== next?.id) await cancelRunsInto(transaction, known.next.id);
  if (!enabled) return { id, schemaName, fill: undefined };
  return {
    id,
    schemaName,
    fill: isNew || (isBack && next) ? next?.id : isBack ? current.id : undefined,
  };
}

async function nextOf(
  transaction: Transaction,
  { id, current, next }: ConfigRow,
  recipe: Recipe,
): Promise<{ readonly id: string } | undefined> {
  if (isSameRecipe(current, recipe)) return undefined;
  if (next && isSameRecipe(next, recipe)) return next;
  const made = newId();
  await insertGeneration(transaction, made, id, recipe);
  return { id: made };
}

/** The generation with this id, whichever of the two it is. */
export const generationOf = ({ current, next }: ConfigRow, id: string): GenerationRow | undefined =>
  [current, next].find((one) => one?.id === id) ?? undefined;

/** Records of a schema beyond which a provider that costs money is not asked without being told to. */
const MANY_RECORDS = 10_000;

/** Fills a generation with what is there. Answers whether it does. */
async function startBackfill(
  parts: ConfigsParts,
  { id, fill }: Stored,
  { backfill = 'auto' }: ConfigInput,
): Promise<boolean> {
  if (fill === undefined || backfill === 'none') return false;
  const config = (await allConfigs(parts.database)).find((one) => one.id === id);
  const generation = config && generationOf(config, fill);
  if (!config || !generation) return false;
  if (generation.provider === openaiProvider) {
    const records = await parts.backfills.estimate(config.schemaName);
    if (records > MANY_RECORDS) return false;
  }
  await parts.backfills.replace(config, generation);
  return true;
}

function warningsOf({ provider }: Recipe, started: boolean, { fill }: Stored): readonly string[] {
  const warnings: string[] = [];
  if (fill !== undefined && !started)
    warnings.push('Records that are there already are not searched yet: start a backfill');
  if (provider === noProvider)
    warnings.push('Without a provider only mode keyword finds something');
  return warnings;
}
