/** Embeddings: texts of records become searchable by what they mean, and by their words. */
import { createCursors } from '../../data/records/page/keyset.ts';
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { storage } from '../storage/index.ts';
import { type EmbeddingsConfig, embeddingsConfig } from './config.ts';
import { createFileTexts } from './files/file-texts.ts';
import { indexJob, purgeJob } from './jobs.ts';
import { measuresOf } from './measure.ts';
import { migrations } from './migrations.ts';
import { noProvider } from './model.ts';
import { createModelSource } from './models/model-source.ts';
import { backfillOperations } from './operations/backfills.ts';
import { configOperations } from './operations/configs.ts';
import { everythingOperations } from './operations/everything.ts';
import { searchOperations } from './operations/search.ts';
import { statusOperations } from './operations/status.ts';
import { allConfigs } from './queries/configs.ts';
import { createVectorIndex } from './scan/pgvector-index.ts';
import type { VectorIndex } from './scan/vector-index.ts';
import { createBackfills } from './services/backfills.ts';
import { createBackground } from './services/background.ts';
import { createConfigs } from './services/configs.ts';
import type { EmbeddingParts } from './services/embedding-parts.ts';
import { createSearchEverything } from './services/everything.ts';
import { followRenames } from './services/renamed-fields.ts';
import { createSearch } from './services/search.ts';
import { configState } from './state.ts';

type NoModules = { readonly [name: string]: never };
type Uses = { readonly storage: typeof storage };

export const embeddings = defineModule({
  name: 'embeddings',
  description: 'Search in records by meaning and by words',
  requires: {},
  uses: { storage },
  config: embeddingsConfig,
  migrations,
  start,
});

/** So that the first search after a start finds what it needs. Not waited for. */
async function readAtStart(
  { config, database, log }: EmbeddingParts,
  index: VectorIndex,
): Promise<void> {
  try {
    if (!config().enabled || !config().search.readAtStart) return;
    for (const { enabled, current } of await allConfigs(database))
      if (enabled && current.provider !== noProvider) await index.prepare(current);
  } catch (error) {
    // The platform stops, or the first search will say what is wrong.
    log.debug({ err: error }, 'Vectors could not be read at the start');
  }
}

/** Guards stay for as long as the process lives, also while the module is switched off and on. */
const guarded = new WeakSet<Kernel>();

function guardSchemas(kernel: Kernel): void {
  if (guarded.has(kernel)) return;
  guarded.add(kernel);
  kernel.schemas.guard(followRenames);
}

async function start({
  kernel,
  config,
  optional,
  log,
}: ModuleContext<EmbeddingsConfig, NoModules, Uses>): Promise<RunningModule<undefined>> {
  guardSchemas(kernel);
  const measures = measuresOf(kernel);
  const current = () => config.current();
  const models = createModelSource({ config: current, database: kernel.database, measures });
  const index = createVectorIndex({ database: kernel.database, config: current, measures });
  const files = createFileTexts({
    config: current,
    measures,
    log,
    storage: optional.storage.current,
  });
  const parts: EmbeddingParts = { ...kernel, config: current, models, measures, files, log };
  const background = createBackground({
    ...parts,
    subscribe: kernel.events.subscribe,
    backfills: () => backfills,
  });
  const backfills = createBackfills({ ...parts, wake: background.wake });
  const configs = createConfigs({ ...parts, backfills, wake: background.wake });
  const cursors = createCursors(kernel.secrets);
  const search = createSearch({ ...parts, index, cursors });
  const stopListening = config.onChange(() => {
    models.renew();
    background.wake();
  });
  background.start();
  void readAtStart(parts, index);
  return {
    service: undefined,
    state: [configState({ configs, config: current, schemas: kernel.schemas })],
    operations: [
      ...searchOperations(search),
      ...everythingOperations(
        createSearchEverything({ ...kernel, configuration: kernel.config, search }),
      ),
      ...configOperations(configs),
      ...backfillOperations(backfills, configs, kernel),
      ...statusOperations({ ...parts, index, cursors }),
    ],
    jobs: [backfills.job, purgeJob(parts), indexJob(parts)],
    async stop() {
      stopListening();
      await background.stop();
      await Promise.all([models.close(), index.close(), files.close()]);
    },
  };
}
