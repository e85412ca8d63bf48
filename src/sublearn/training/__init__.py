"""Learners: how the learnable weights of an instance are found by training."""

from sublearn.training._adahessian import AdaHessian
from sublearn.training._adam import Adam
from sublearn.training._descend import Descent, Goal, descend, starting_values
from sublearn.training._gradient_descent import GradientDescent
from sublearn.training._learner import Learner, State
from sublearn.training._levenberg import LevenbergMarquardt
from sublearn.training._losses import CrossEntropy, Loss, SquaredError
from sublearn.training._named import LEARNERS, learner_named
from sublearn.training._named import settings_of as settings_of
from sublearn.training._objective import Evaluation, Objective
from sublearn.training._sgd import SGD
from sublearn.training._streams import Streams
from sublearn.training._train import Course as Course
from sublearn.training._train import Training, train
from sublearn.training._train import asked_of as asked_of
from sublearn.training._train import train_keyed as train_keyed

__all__ = [
    "LEARNERS",
    "SGD",
    "AdaHessian",
    "Adam",
    "CrossEntropy",
    "Descent",
    "Evaluation",
    "Goal",
    "GradientDescent",
    "Learner",
    "LevenbergMarquardt",
    "Loss",
    "Objective",
    "SquaredError",
    "State",
    "Streams",
    "Training",
    "descend",
    "learner_named",
    "starting_values",
    "train",
]
