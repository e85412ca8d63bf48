"""Learners: how the learnable weights of an instance are found by training."""

from sublearn.learners._adahessian import AdaHessian
from sublearn.learners._adam import Adam
from sublearn.learners._descend import Descent, Goal, descend, starting_values
from sublearn.learners._gradient_descent import GradientDescent
from sublearn.learners._learner import Learner, State
from sublearn.learners._levenberg import LevenbergMarquardt
from sublearn.learners._losses import CrossEntropy, Loss, SquaredError
from sublearn.learners._named import LEARNERS, learner_named
from sublearn.learners._objective import Evaluation, Objective
from sublearn.learners._sgd import SGD
from sublearn.learners._streams import Streams
from sublearn.learners._train import Training, train

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
