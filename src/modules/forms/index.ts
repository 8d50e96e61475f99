/** Forms: questions that visitors answer, checked, stored and passed on. */
import type { Kernel } from '../../host/kernel.ts';
import { defineModule, type ModuleContext, type RunningModule } from '../../host/module.ts';
import { authentication } from '../authentication/index.ts';
import { communications } from '../communications/index.ts';
import { router } from '../router/index.ts';
import { storage } from '../storage/index.ts';
import { type FormsConfig, formsConfig } from './config.ts';
import { cleanUpJob, resumeJob, resumeMails } from './jobs.ts';
import { migrations } from './migrations.ts';
import { formOperations } from './operations/admin-forms.ts';
import { submissionOperations } from './operations/admin-submissions.ts';
import { legacyOperations } from './operations/legacy.ts';
import { submitOperations } from './operations/submit.ts';
import { snippetFor, visitorOperations } from './operations/visitors.ts';
import { usedTemplates } from './queries/forms.ts';
import { createKnownForms, type FormParts, measureForms } from './services/form-parts.ts';
import { createForms } from './services/forms.ts';
import { createFileLinks, createFormMails, formTemplates } from './services/mails.ts';
import { createConfirming, createProcessing } from './services/processing.ts';
import { createChallenges } from './services/spam.ts';
import { createSubmissions, type Submissions } from './services/submissions.ts';
import { createSubmitting } from './services/submitting.ts';
import { formState } from './state.ts';

type Requirements = {
  readonly communications: typeof communications;
  readonly router: typeof router;
};
type Uses = { readonly authentication: typeof authentication; readonly storage: typeof storage };
type Context = ModuleContext<FormsConfig, Requirements, Uses>;

export const forms = defineModule({
  name: 'forms',
  description: 'Forms that visitors fill in, and what they send',
  requires: { communications, router },
  uses: { authentication, storage },
  config: formsConfig,
  // The 0.17 line has no forms.
  whenOff: 'missing',
  migrations,
  start,
});

/** Operations whose bounds follow the configuration. */
const owner = 'forms/submit';

async function start(context: Context): Promise<RunningModule<undefined>> {
  const { kernel, config, services, optional } = context;
  const { templates } = services.communications;
  await templates.register('forms', formTemplates);
  templates.onUse('forms', () => usedTemplates(kernel.database));
  const parts = partsOf(context);
  const submissions = createSubmissions(parts);
  const all = createForms(parts, submissions);
  const challenges = createChallenges(parts);
  const submitting = createSubmitting(parts, challenges);
  const links = createFileLinks(parts);
  let running = true;
  const publish = (): void =>
    kernel.operations.replace(owner, running ? submitOperations({ ...parts, submitting }) : []);
  publish();
  const stopListening = config.onChange(publish);
  const stopWaiting = services.communications.onChannelsChange(() => {
    resumeMails(parts).catch((error: unknown) =>
      context.log.warn({ err: error }, 'Mails of forms wait for their next turn'),
    );
  });
  const stopErasing = eraseWithUsers(optional.authentication, submissions);
  return {
    service: undefined,
    operations: [
      ...formOperations(all, (id) => snippetFor(parts.publicUrl(), id)),
      ...submissionOperations({ forms: all, submissions }),
      ...legacyOperations({ forms: all, submissions }),
      ...visitorOperations({
        ...parts,
        submitting,
        challenges,
        links,
        confirming: createConfirming(parts),
      }),
    ],
    jobs: [
      createProcessing(parts, createFormMails(parts, links)),
      cleanUpJob({ ...parts, hasUsers: () => optional.authentication.current() !== undefined }),
      resumeJob(parts),
    ],
    state: [formState(kernel.database, all)],
    async stop() {
      running = false;
      stopListening();
      stopWaiting();
      stopErasing();
      publish();
    },
  };
}

function partsOf({ kernel, config, services, optional, log }: Context): FormParts {
  return {
    ...kernel,
    ...lastingParts(kernel),
    config: () => config.current(),
    storage: optional.storage,
    messages: services.communications.messages,
    captcha: services.router.captcha,
    publicUrl: services.router.publicUrl,
    log,
  };
}

/** What users have sent goes with their accounts, in the same transaction. */
function eraseWithUsers(
  users: Context['optional']['authentication'],
  submissions: Submissions,
): () => void {
  let stop: (() => void) | undefined;
  const follow = (): void => {
    stop?.();
    stop = users
      .current()
      ?.onErasure(async (_transaction, userIds) => void (await submissions.erase({ userIds })));
  };
  follow();
  const stopFollowing = users.onChange(follow);
  return () => {
    stopFollowing();
    stop?.();
  };
}

/** What belongs to the process, also while the module is switched off and on. */
const lasting = new WeakMap<Kernel, Pick<FormParts, 'known' | 'count'>>();

function lastingParts(kernel: Kernel): Pick<FormParts, 'known' | 'count'> {
  const there = lasting.get(kernel);
  if (there) return there;
  const made = { known: createKnownForms(kernel), count: measureForms(kernel) };
  lasting.set(kernel, made);
  return made;
}
