/** Figures of forms for monitoring; 0 from the start under the name by which an existing panel asks. */
import type { Kernel } from '../../../host/kernel.ts';
import { remembered } from '../../../kernel/telemetry/metrics.ts';
import { countForms } from '../queries/forms.ts';

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
