package org.apache.flink.streaming.runtime.tasks.mailbox;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;

/** Our mailbox behind Flink's interface, so that Flink's own tests can run over it. */
final class PillarboxTaskMailbox implements TaskMailbox {
    private final io.pillarbox.mailbox.TaskMailbox mailbox =
            new io.pillarbox.mailbox.TaskMailbox(Thread.currentThread());
    private final Map<io.pillarbox.mailbox.Mail, Mail> originals = new ConcurrentHashMap<>();

    @Override
    public boolean isMailboxThread() {
        return mailbox.isMailboxThread();
    }

    @Override
    public boolean hasMail() {
        return mailbox.hasMail();
    }

    @Override
    public Optional<Mail> tryTake(int priority) {
        return translating(() -> Optional.ofNullable(original(mailbox.tryTake(priority))));
    }

    @Override
    public Mail take(int priority) throws InterruptedException {
        try {
            return original(mailbox.take(priority));
        } catch (io.pillarbox.mailbox.MailboxClosedException closed) {
            throw new TaskMailbox.MailboxClosedException(closed.getMessage());
        }
    }

    @Override
    public boolean createBatch() {
        return mailbox.createBatch();
    }

    @Override
    public Optional<Mail> tryTakeFromBatch() {
        return translating(() -> Optional.ofNullable(original(mailbox.tryTakeFromBatch())));
    }

    @Override
    public void put(Mail mail) {
        boolean urgent = ((org.apache.flink.api.common.operators.MailOptionsImpl) mail.getMailOptions()).isUrgent();
        io.pillarbox.mailbox.Mail ours =
                new io.pillarbox.mailbox.Mail(
                        mail::run,
                        mail.getPriority(),
                        mail.toString(),
                        urgent);
        originals.put(ours, mail);
        translating(
                () -> {
                    mailbox.put(ours);
                    return null;
                });
    }

    @Override
    public List<Mail> drain() {
        return originals(mailbox.drain());
    }

    @Override
    public void quiesce() {
        mailbox.quiesce();
    }

    @Override
    public List<Mail> close() {
        return originals(mailbox.close());
    }

    @Override
    public State getState() {
        return State.valueOf(mailbox.state().toString());
    }

    @Override
    public int size() {
        return mailbox.size();
    }

    @Override
    public void runExclusively(Runnable runnable) {
        mailbox.runExclusively(runnable);
    }

    private Mail original(io.pillarbox.mailbox.Mail ours) {
        return ours == null ? null : originals.remove(ours);
    }

    private List<Mail> originals(List<io.pillarbox.mailbox.Mail> ours) {
        List<Mail> all = new ArrayList<>();
        ours.forEach(mail -> all.add(original(mail)));
        return all;
    }

    private static <T> T translating(Supplier<T> action) {
        try {
            return action.get();
        } catch (io.pillarbox.mailbox.MailboxClosedException closed) {
            throw new TaskMailbox.MailboxClosedException(closed.getMessage());
        }
    }
}
