/** What the services of this module share: forms in memory, and figures for monitoring. */
import type { Kernel } from '../../../host/kernel.ts';
import type { OptionalModule } from '../../../host/module.ts';
import { isId } from '../../../kernel/ids.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';
import type { Messages } from '../../communications/index.ts';
import type { Captcha } from '../../router/index.ts';
import type { StorageService } from '../../storage/index.ts';
import type { FormsConfig } from '../config.ts';
import { countForms, type FormRow, formById } from '../queries/forms.ts';

export interface FormParts
  extends Pick<Kernel, 'database' | 'events' | 'jobs' | 'durableLimits' | 'secrets'> {
  readonly config: () => FormsConfig;
  readonly known: KnownForms;
  readonly count: CountOutcome;
  readonly storage: OptionalModule<StorageService>;
  readonly messages: Messages;
  readonly captcha: Captcha;
  /** Public address of the client surface. */
  readonly publicUrl: () => string;
  readonly log: Logger;
}

/* Forms in memory, dropped on every node when one changes. */

export interface KnownForms {
  /** `undefined`: there is none of this id. */
  find(id: string): Promise<FormRow | undefined>;
  /** Forgets it here and on every other node, before it resolves. */
  forget(id: string): Promise<void>;
}

/** Made once for each process: a cache keeps its name. */
export function createKnownForms({ caches, database }: Pick<Kernel, 'caches' | 'database'>) {
  const cache = caches.create<FormRow>({ name: 'forms', maxEntries: 2_000, ttlMs: 60_000 });
  const known: KnownForms = {
    async find(asked) {
      const id = asked.toLowerCase();
      return isId(id) ? cache.load(id, () => formById(database, id)) : undefined;
    },
    forget: (id) => cache.invalidate([id.toLowerCase()]),
  };
  return known;
}

/* Figures for monitoring; 0 from the start under the name by which an existing panel asks. */

const labels = { module_name: 'forms' };
const RENEW_MS = 30_000;

/** What became of an attempt to submit. */
export type Outcome = 'accepted' | 'spam' | 'refused' | 'limited' | 'failed';
/** Counts an attempt under the name of the form. */
export type CountOutcome = (form: string, outcome: Outcome) => void;

/** Made once for each process. */
export function measureForms({ metrics, database }: Pick<Kernel, 'metrics' | 'database'>) {
  const read = remembered(RENEW_MS, [{ labels, value: 0 }], async () => [
    { labels, value: await countForms(database) },
  ]);
  metrics.gauge('forms_total', 'Forms, as of the last half minute', read, ['module_name']);
  const submissions = metrics.counter('form_submissions_total', 'Attempts to submit a form', [
    'form',
    'outcome',
  ]);
  const count: CountOutcome = (form, outcome) => submissions.inc({ form, outcome });
  return count;
}
