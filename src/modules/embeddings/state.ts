/** What is searched of which schema, as state: by schema and target, as it will be when a change is complete. */
import Type from 'typebox';
import type { SchemaRegistry } from '../../data/schema/registry/registry.ts';
import {
  type PlacedDocument,
  placed,
  type StateDocument,
  type StateType,
} from '../../kernel/state.ts';
import type { EmbeddingsConfig } from './config.ts';
import { ConfigShape } from './operations/configs.ts';
import type { ConfigRow } from './queries/configs.ts';
import type { Configs } from './services/configs.ts';
import { type ConfigInput, isSensitive, recipeOf } from './services/recipe.ts';

interface Parts {
  readonly configs: Configs;
  readonly config: () => EmbeddingsConfig;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
}

const { backfill: _backfill, ...properties } = ConfigShape.properties;
const ConfigDocument = Type.Object(properties);

const keyOf = ({ schemaName, targetField }: StateDocument): string =>
  `${String(schemaName)}.${String(targetField)}`;

export const configState = ({ configs, config, schemas }: Parts): StateType => ({
  module: 'embeddings',
  type: 'searches',
  reportDamaged: true,
  priority: 40,
  document: ConfigDocument,
  keyOf,
  touches: (document) => configs.touchedBy(inputOf(document)),
  export: async () => (await configs.list()).map(documentOf),
  async complete(_caller, documents) {
    return Promise.all(documents.map((one) => placed(one.place, () => completed(config(), one))));
  },
  async check(caller, changes, whole) {
    const arriving = new Set(
      ['schemas', 'extensions'].flatMap((type) =>
        whole.changes('database', type).map(({ key }) => key),
      ),
    );
    for (const { after, place } of changes) {
      // Of a schema that the same import brings, its fields are looked at when it is there.
      if (!after || (!schemas.get(String(after.schemaName)) && arriving.size > 0)) continue;
      if (arriving.has(String(after.schemaName))) continue;
      await placed(place, () => configs.check(caller, inputOf(after)));
    }
  },
  async apply(caller, changes) {
    const stored = await configs.list();
    for (const { key, after, place } of changes) {
      const known = stored.find((one) => keyOf(documentOf(one)) === key);
      if (after) await placed(place, () => configs.save(caller, inputOf(after)));
      else if (known) await configs.remove(caller, known.id);
    }
  },
});

const inputOf = (document: StateDocument): ConfigInput => document as unknown as ConfigInput;

/** With everything that is left out. */
function completed(config: EmbeddingsConfig, { document }: PlacedDocument): StateDocument {
  const input = inputOf(document);
  const { schemaName, targetField, enabled = true } = input;
  return inForm({ schemaName, targetField, enabled, ...recipeOf(config, input) });
}

const documentOf = ({ targetField, enabled, current, next }: ConfigRow): StateDocument =>
  inForm({ ...(next ?? current), targetField, enabled });

type Whole = ReturnType<typeof recipeOf> &
  Pick<Required<ConfigInput>, 'schemaName' | 'targetField' | 'enabled'>;

function inForm(whole: Whole): StateDocument {
  const { provider, model, dimensions, fieldOptions, sourceFields } = whole;
  const allowed = sourceFields.filter(isSensitive);
  return {
    schemaName: whole.schemaName,
    targetField: whole.targetField,
    sourceFields,
    provider,
    ...(model !== '' && { model, dimensions }),
    similarity: whole.similarity,
    language: whole.language,
    ...(Object.keys(fieldOptions).length > 0 && { fieldOptions }),
    ...(allowed.length > 0 && { sourceFieldAllowlist: allowed }),
    enabled: whole.enabled,
  };
}
