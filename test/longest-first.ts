import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** Files that take longest, the longest first: begun at the end of a run, one of them would be waited for alone. */
const long = [
  'acceptance/fuzz.test.ts',
  'acceptance/start.test.ts',
  'acceptance/nemesis/nemesis.test.ts',
  'acceptance/process/supervise.test.ts',
  'src/modules/storage/providers/stores.test.ts',
  'src/modules/authorization/engine/property/agreement.test.ts',
  'acceptance/acknowledged.test.ts',
  'acceptance/embeddings/killed.test.ts',
  'src/modules/storage/crash.test.ts',
  'acceptance/two-nodes.test.ts',
  'acceptance/storage/stores.test.ts',
  'acceptance/authorization/two-nodes.test.ts',
  'acceptance/storage/failing-stores.test.ts',
  'src/backup/backup.test.ts',
  'acceptance/storage/scale.test.ts',
  'acceptance/authorization/surfaces.model.test.ts',
  'acceptance/authentication/teams.security.test.ts',
  'acceptance/communications/crash.test.ts',
  'acceptance/storage/admin.test.ts',
  'acceptance/storage/large.test.ts',
  'acceptance/realtime/channels.test.ts',
  'acceptance/realtime/nodes.test.ts',
  'acceptance/authentication/passkeys.security.test.ts',
  'acceptance/functions/nodes.test.ts',
  'src/modules/functions/engine/isolation.security.test.ts',
  'src/cli/doctor.test.ts',
  'src/main.test.ts',
  'acceptance/process/workers.test.ts',
  'acceptance/authorization/conformance.test.ts',
  'acceptance/generated-clients/typescript.test.ts',
  'acceptance/process/rolling.test.ts',
  'acceptance/realtime/model.test.ts',
  'acceptance/field-options.test.ts',
  'acceptance/authority.security.test.ts',
  'src/kernel/database/embedded/server.test.ts',
  'src/kernel/database/embedded/start-failures.test.ts',
  'acceptance/webhooks/crash.test.ts',
  'acceptance/communications/at-size.test.ts',
  'acceptance/floods.security.test.ts',
  'acceptance/generated-clients/contract.test.ts',
  'acceptance/secrets.security.test.ts',
  'acceptance/schema-options.test.ts',
  'acceptance/storage/resumable-nodes.test.ts',
  'acceptance/embeddings/providers.test.ts',
  'src/kernel/events/outbox.test.ts',
  'acceptance/crash.test.ts',
  'acceptance/chat/nodes.test.ts',
  'src/kernel/database/statement-classes.test.ts',
  'acceptance/one-request.security.test.ts',
  'acceptance/embeddings/index.test.ts',
  'acceptance/viewer.test.ts',
  'acceptance/functions/crash.test.ts',
  'acceptance/functions/triggers.test.ts',
  'acceptance/statements.test.ts',
  'acceptance/large-requests.security.test.ts',
  'acceptance/storage/backup.test.ts',
  'src/modules/communications/slow-providers.test.ts',
  'acceptance/realtime/ports.test.ts',
  'acceptance/authentication/guess-budgets.security.test.ts',
  'src/modules/embeddings/scan/pgvector-index.test.ts',
  'acceptance/forms/hostile.security.test.ts',
  'acceptance/schemas.test.ts',
  'src/modules/chat/settings.test.ts',
  'src/modules/communications/mail-providers.test.ts',
  'acceptance/state.test.ts',
  'src/cli/state.test.ts',
  'src/modules/storage/providers/remote/failing.test.ts',
];

const placeOf = ({ moduleId }: TestSpecification): number => {
  const place = long.findIndex((path) => moduleId.endsWith(path));
  return place < 0 ? long.length : place;
};

/** The order of vitest, but for files that are known to take long. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => placeOf(a) - placeOf(b));
  }
}
